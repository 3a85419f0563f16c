"""Foreign and broken files, and reports that have to be exported."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.sources.nsys_export import nvtx, write_export
from tests.sources.nsys_loading import load_export
from traceweave.errors import InputError
from traceweave.sources import nsys

SQLITE_HEAD = b"SQLite format 3\x00" + bytes(84)


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


def test_text_that_is_not_utf8_is_repaired(tmp_path: Path) -> None:
    path = write_export(tmp_path / "latin.sqlite", NVTX_EVENTS=[nvtx(11, 1, 2, "x")])
    with closing(sqlite3.connect(path)) as con:
        con.execute("UPDATE NVTX_EVENTS SET text = CAST(x'6cff66' AS TEXT)")
        con.commit()
    assert load_export(path).rows("SELECT name FROM base.host_ops") == [("l\ufffdf",)]


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


KNOWS = 'case "$*" in *--help*) echo "and parquetdir."; exit;; *parquetdir*) exit 1;; esac\n'
OLD = 'case "$*" in *include-blobs*) echo "unrecognised option" >&2; exit 1;; esac\n'
ALL = "--force-overwrite=true --include-blobs=true"


@pytest.mark.parametrize(
    ("script", "report", "output", "asked"),
    [
        (EXPORTS, "job.rank3.nsys-rep", "job.rank3.sqlite", [f"--type=sqlite {ALL}"]),
        # as Parquet where nsys can, several times as fast
        (EXPORTS_TABLES, "job.rank3.nsys-rep", "job.rank3_pqtdir", [f"--type=parquetdir {ALL}"]),
        # what fails as Parquet is tried as SQLite
        (
            KNOWS + EXPORTS, "r.nsys-rep", "r.sqlite",
            [f"--type=parquetdir {ALL}", "--type=parquetdir --force-overwrite=true",
             f"--type=sqlite {ALL}"],
        ),
        # an old nsys knows no payloads
        (
            OLD + EXPORTS, "old.qdrep", "old.sqlite",
            [f"--type=sqlite {ALL}", "--type=sqlite --force-overwrite=true"],
        ),
    ],
)  # fmt: skip
def test_reports_are_exported_with_the_users_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, report: str, output: str,
    asked: list[str],
) -> None:  # fmt: skip
    log = fake_nsys(tmp_path, script, monkeypatch)
    assert nsys.is_report(tmp_path / report)
    assert nsys.export_report(tmp_path / report, tmp_path) == tmp_path / output
    first, *exports = log.read_text().splitlines()
    assert first == "export --help"
    assert [export.partition(" --output=")[0] for export in exports] == [
        f"export {options}" for options in asked
    ]
    assert exports[-1].endswith(f" --output={tmp_path / output} {tmp_path / report}")


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
