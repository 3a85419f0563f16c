"""Hostile, foreign and broken files, and secrets that must not travel."""

import gzip
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.marks import nightly
from tests.sources.nsys_export import EPOCH_NS, call, kernel, nvtx, process, write_export
from tests.sources.nsys_loading import load_export, load_rows
from traceweave.errors import InputError
from traceweave.sources import nsys

SQLITE_HEAD = b"SQLite format 3\x00" + bytes(84)
SECRET = "hf_0123456789_very_secret"


def test_secrets_never_reach_the_database(tmp_path: Path) -> None:
    """Environments, output and log files of the job, and strings that no event refers to."""
    path = write_export(
        tmp_path / "secret.sqlite",
        StringIds=[{"id": 1, "value": f"TOKEN={SECRET}"}, {"id": 2, "value": "cudaFree_v3020"}],
        META_DATA_CAPTURE=[
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f'HF_TOKEN="{SECRET}"'},
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": 'RANK="5"'},
            {"name": "PROCESS_0:ARGUMENT_1", "value": f"--token={SECRET}"},
        ],
        TARGET_INFO_SYSTEM_ENV=[
            {"name": "DeviceEnvironment", "value": f"HF_TOKEN={SECRET};WORLD_SIZE=8"}
        ],
        ProcessStreams=[{"globalPid": process(11), "filenameId": 1, "contentId": SECRET}],
        ANALYSIS_FILE=[{"id": 1, "filename": SECRET, "contentId": 1, "globalPid": process(11)}],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 1, 2, 1, "cudaFree_v3020")],
    )
    database = tmp_path / "run.duckdb"
    loaded = load_export(path, database)
    assert (loaded.trace.processes[0].rank, loaded.trace.processes[0].world_size) == (5, 8)
    assert SECRET not in repr(loaded.trace)
    assert SECRET not in repr(loaded.loaded)
    columns = loaded.rows(
        "SELECT c.schema_name || '.' || c.table_name, c.column_name FROM duckdb_columns() AS c"
        " JOIN duckdb_tables() AS t USING (table_oid) WHERE NOT t.temporary"
    )
    texts = [
        loaded.con.execute(f'SELECT count(*) FROM {t} WHERE "{c}"::VARCHAR LIKE ?', [f"%{SECRET}%"])
        .fetchall()
        for t, c in columns
    ]  # fmt: skip
    assert texts == [[(0,)]] * len(columns)
    loaded.con.execute("CHECKPOINT")
    loaded.con.close()
    assert SECRET.encode() not in database.read_bytes()


def test_foreign_sqlite_is_not_ours(tmp_path: Path) -> None:
    foreign = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(foreign)) as con:
        con.execute("CREATE TABLE bookmarks (id INTEGER, title TEXT)")
    assert not nsys.recognize(foreign, SQLITE_HEAD)
    text = tmp_path / "notes.sqlite"
    text.write_text("StringIds NVTX_EVENTS")
    assert not nsys.recognize(text, text.read_bytes())


def test_a_file_that_is_no_sqlite_is_refused(tmp_path: Path) -> None:
    fake = tmp_path / "fake.sqlite"
    fake.write_bytes(SQLITE_HEAD + b"\xff" * 5000)
    assert not nsys.recognize(fake, SQLITE_HEAD)
    with pytest.raises(InputError, match=r"fake\.sqlite: cannot be read as SQLite"):
        nsys.probe(fake)


def many_ranges(path: Path, count: int = 20_000) -> Path:
    return write_export(
        path, NVTX_EVENTS=[nvtx(11, i * 10, i * 10 + 5, f"range {i % 7}") for i in range(count)]
    )


@nightly
def test_packed_exports_load_like_plain_ones(tmp_path: Path) -> None:
    plain = many_ranges(tmp_path / "plain.sqlite", 100)
    packed = tmp_path / "misnamed.json"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert nsys.recognize(packed, SQLITE_HEAD)
    everything = "SELECT * FROM base.host_ops ORDER BY op_id"
    assert load_export(packed).rows(everything) == load_export(plain).rows(everything)


@nightly
@pytest.mark.parametrize("packed", [False, True])
def test_a_truncated_export_keeps_what_is_readable(tmp_path: Path, packed: bool) -> None:
    whole = many_ranges(tmp_path / "whole.sqlite").read_bytes()
    cut = tmp_path / "cut.sqlite"
    if packed:
        data = gzip.compress(whole)
        cut.write_bytes(data[: len(data) // 2])
    else:
        cut.write_bytes(whole[: len(whole) // 2])
    assert nsys.recognize(cut, SQLITE_HEAD)
    loaded = load_export(cut)
    rows = loaded.rows("SELECT start_local_ns, duration_ns, name FROM base.host_ops ORDER BY 1")
    assert 1_000 < len(rows) < 20_000
    kept = [(start - EPOCH_NS) // 10 for start, _, _ in rows]
    assert rows == [(EPOCH_NS + i * 10, 5, f"range {i % 7}") for i in kept]
    assert loaded.loaded.damaged is not None
    assert loaded.loaded.events_stored == len(rows)
    # rows of the page that was cut in two are read without content
    assert loaded.loaded.events_skipped == loaded.issue("skipped: NVTX_EVENTS") < 200


def test_text_that_is_not_utf8_is_repaired(tmp_path: Path) -> None:
    path = write_export(tmp_path / "latin.sqlite", NVTX_EVENTS=[nvtx(11, 1, 2, "x")])
    with closing(sqlite3.connect(path)) as con:
        con.execute("UPDATE NVTX_EVENTS SET text = CAST(x'6cff66' AS TEXT)")
        con.commit()
    assert load_export(path).rows("SELECT name FROM base.host_ops") == [("l\ufffdf",)]


def test_names_are_data(tmp_path: Path) -> None:
    """Quotes, SQL, HTML, JSON, line ends and NUL in names arrive as they are."""
    name = "'; DROP TABLE base.gpu_ops; -- <script>\"}\\\n\x00"
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(11, 1, 2, 1, name)],
        NVTX_EVENTS=[nvtx(11, 1, 2, name)],
    )
    assert loaded.rows("SELECT name, args->>'short_name' FROM base.gpu_ops") == [
        (name + "(int)", name)
    ]
    assert loaded.rows("SELECT name FROM base.host_ops") == [(name,)]


def fake_nsys(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an executable named nsys alone on PATH; return where it logs its arguments."""
    log = folder / "arguments"
    tool = folder / "nsys"
    tool.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\n{script}\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return log


# --help says nothing; else writes the file that follows --output=
EXPORTS = 'for a in "$@"; do case "$a" in --output=*) echo sqlite > "${a#--output=}";; esac; done'

# Knows folders of Parquet tables, and writes two such files
EXPORTS_TABLES = """
case "$*" in *--help*) echo "arrowdir, and parquetdir."; exit;; esac
for a in "$@"; do case "$a" in --output=*) out="${a#--output=}"; mkdir "$out"
    touch "$out/StringIds.parquet" "$out/META_DATA_EXPORT.parquet";; esac; done
"""


def test_reports_are_exported_with_the_users_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_nsys(tmp_path, EXPORTS, monkeypatch)
    report = tmp_path / "job.rank3.nsys-rep"
    report.touch()
    assert nsys.is_report(report)
    output = nsys.export_report(report, tmp_path / "..")
    assert (output.name, output.read_text()) == ("job.rank3.sqlite", "sqlite\n")
    assert log.read_text() == (
        "export --help\nexport --type=sqlite --force-overwrite=true --include-blobs=true"
        f" --output={output} {report}\n"
    )
    output.unlink()


def test_reports_are_exported_as_parquet_where_nsys_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_nsys(tmp_path, EXPORTS_TABLES, monkeypatch)
    output = nsys.export_report(tmp_path / "job.rank3.nsys-rep", tmp_path)
    assert output == tmp_path / "job.rank3_pqtdir"
    assert nsys.recognize(output, b"")
    assert ["--type=parquetdir" in line for line in log.read_text().splitlines()] == [False, True]


def test_a_failing_export_to_parquet_is_tried_as_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knows = 'case "$*" in *--help*) echo "and parquetdir."; exit;; *parquetdir*) exit 1;; esac\n'
    fake_nsys(tmp_path, knows + EXPORTS, monkeypatch)
    assert nsys.export_report(tmp_path / "r.nsys-rep", tmp_path) == tmp_path / "r.sqlite"


def test_an_old_nsys_exports_without_payloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'case "$*" in *include-blobs*) echo "unrecognised option" >&2; exit 1;; esac\n'
    log = fake_nsys(tmp_path, refuse + EXPORTS, monkeypatch)
    output = nsys.export_report(tmp_path / "old.qdrep", tmp_path)
    assert output == tmp_path / "old.sqlite"
    assert ["include-blobs" in line for line in log.read_text().splitlines()[1:]] == [True, False]


def test_a_failing_export_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nsys(tmp_path, 'echo "Report is corrupt" >&2; exit 1', monkeypatch)
    with pytest.raises(InputError) as error:
        nsys.export_report(tmp_path / "r.nsys-rep", tmp_path)
    assert str(error.value) == (
        f"{tmp_path}/r.nsys-rep: nsys could not export it (Report is corrupt); try"
        " `nsys export --type=sqlite --force-overwrite=true --include-blobs=true"
        f" --output={tmp_path}/r.sqlite {tmp_path}/r.nsys-rep` by hand"
    )


def test_without_nsys_the_command_to_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError) as error:
        nsys.export_report(Path("runs/r 1.nsys-rep"), tmp_path)
    assert str(error.value) == (
        "runs/r 1.nsys-rep: a binary nsys report, and nsys is not on PATH to export it; run"
        " `nsys export --type=sqlite --force-overwrite=true --include-blobs=true"
        " '--output=runs/r 1.sqlite' 'runs/r 1.nsys-rep'`"
        " where nsys is installed and ingest the .sqlite"
    )
