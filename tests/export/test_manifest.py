"""The archive of original traces for Perfetto: every event lands where it is in the database.

Perfetto's own trace processor is not here to be asked: what it does with a manifest is written down
in its reference (perfetto.dev/docs/reference/perfetto-manifest) and applied below by hand."""

import gzip
import json
import shutil
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import nightly
from traceweave.cli.main import main
from traceweave.errors import InputError, UsageError
from traceweave.export import plan
from traceweave_simulator import Config, simulate, write_kineto


def opened(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the manifest and the members of an archive, checked by the rules of the reference."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members.pop("perfetto_manifest.json")
    assert text.startswith(b'{"perfetto_manifest"')  # by which it is known
    manifest = json.loads(text)["perfetto_manifest"]
    assert manifest["version"] == 1
    paths = [file["path"] for file in manifest["files"]]
    assert sorted(paths) == sorted(members)  # exact names
    assert manifest["trace_time"]["file"] in paths
    for file in manifest["files"]:
        assert file.keys() == {"path", "machine", "clocks"}
        clocks = file["clocks"]
        assert clocks["sync_to"] == {"file": paths[0], "clock": "REALTIME"}
        assert isinstance(clocks["offset_ns"], int)
        # no file may be a container itself, and hidden ones are ignored
        assert not members[file["path"]].startswith(b"\x1f\x8b")
        assert not any(part.startswith(".") for part in file["path"].split("/"))
    return manifest, {name: json.loads(data) for name, data in members.items()}


def starts(trace: dict[str, Any], offset_ns: int) -> list[int]:
    """Return where Perfetto puts the start of each of a file's ranges."""
    return [
        int(Decimal(str(event["ts"])) * 1000) + offset_ns
        for event in trace["traceEvents"]
        if event.get("ph") == "X" and "ts" in event
    ]


def assert_aligned(database: Path, archive: Path) -> int:
    """Return how many ranges of the archive are where the database has them, within what is said
    to be lost."""
    manifest, traces = opened(archive)
    lost = manifest["attributes"]
    checked = 0
    with traceweave.open(database) as run:
        for file in manifest["files"]:
            rank = int(file["machine"]["name"].removeprefix("rank "))
            known = sorted(
                start for (start,) in run.con.execute(
                    "SELECT start_ns FROM host_ops WHERE rank = $1 AND kind <> 'python'"
                    " UNION ALL SELECT start_ns FROM gpu_ops WHERE rank = $1", [rank]
                ).fetchall()
            )  # fmt: skip
            there = sorted(starts(traces[file["path"]], file["clocks"]["offset_ns"]))
            most = lost[f"traceweave.lost_ns.{file['path']}"]
            assert len(there) >= len(known) > 0
            position = 0
            for start in known:
                while there[position] < start - most - 1:
                    position += 1
                assert abs(there[position] - start) <= most + 1
                checked += 1
    return checked


@pytest.fixture
def gloo(fixtures: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A folder of real traces, packed, and its database."""
    folder = tmp_path / "traces"
    shutil.copytree(fixtures / "ddp_gloo_4ranks", folder)
    database = tmp_path / "run.duckdb"
    traceweave.ingest(folder, database)
    return folder, database


@nightly
def test_originals_lie_where_the_database_has_them(
    gloo: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, database = gloo
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    archive = tmp_path / "run.zip"
    code = main(f"export {database} --to perfetto-manifest -o {archive}".split())
    out, err = capsys.readouterr()
    assert (code, out) == (0, "")
    assert "a file gets one offset" in err
    assert all(f"rank {rank} by " in err for rank in range(4))
    assert assert_aligned(database, archive) > 1000
    assert {path: path.read_bytes() for path in before} == before
    with zipfile.ZipFile(archive) as packed:  # byte for byte what the profiler wrote
        for path, data in before.items():
            if path.name.endswith(".json.gz"):
                [name] = [n for n in packed.namelist() if n.endswith("/" + path.name[:-3])]
                assert packed.read(name) == gzip.decompress(data)


@nightly
def test_drift_is_what_is_lost(tmp_path: Path) -> None:
    config = Config(ranks=2, steps=6, clock_drift_ppm=50.0)
    write_kineto(simulate(config), tmp_path / "traces")
    database = tmp_path / "run.duckdb"
    traceweave.ingest(tmp_path / "traces", database)
    with traceweave.open(database) as run:
        archive = run.export(tmp_path / "run.zip", to="perfetto-manifest")
        bundle = plan(run.con, archive)
        row = run.con.execute(
            "SELECT drift_ppm, last_local_ns - first_local_ns FROM clocks"
            " JOIN base.rank_sources USING (rank) WHERE rank = 1"
        ).fetchone()
    assert row is not None
    assert_aligned(database, archive)
    # half of what the clock gains over the recording, by hand
    assert bundle.files[0].lost_ns == 0
    assert bundle.files[1].lost_ns == pytest.approx(abs(row[0]) * 1e-6 * row[1] / 2, abs=2)


@nightly
def test_ranks_are_chosen_and_parts_refused(gloo: tuple[Path, Path], tmp_path: Path) -> None:
    _, database = gloo
    with traceweave.open(database) as run:
        archive = run.export(tmp_path / "run.zip", to="perfetto-manifest", ranks="1,3")
        manifest, _ = opened(archive)
        assert [file["machine"]["name"] for file in manifest["files"]] == ["rank 1", "rank 3"]
        with pytest.raises(UsageError, match="original traces, whole"):
            run.export(tmp_path / "no.zip", to="perfetto-manifest", steps="1")


def test_a_trace_that_moved_or_changed_is_one_line(gloo: tuple[Path, Path], tmp_path: Path) -> None:
    folder, database = gloo
    trace = sorted(folder.glob("*.json.gz"))[0]
    kept = trace.read_bytes()
    archive = tmp_path / "run.zip"
    with traceweave.open(database) as run:
        trace.write_bytes(kept + b"\0")
        with pytest.raises(InputError, match="is not the file that was ingested"):
            run.export(archive, to="perfetto-manifest")
        trace.unlink()
        with pytest.raises(InputError, match="have to be where they were at ingest"):
            run.export(archive, to="perfetto-manifest")
    assert not archive.exists()


@nightly
def test_traces_in_object_storage_are_refused(gloo: tuple[Path, Path], tmp_path: Path) -> None:
    import duckdb

    _, database = gloo
    with duckdb.connect(str(database)) as con:
        con.execute("UPDATE sources SET path = 's3://bucket/run/rank0.json' WHERE source_id = 0")
    with (
        traceweave.open(database) as run,
        pytest.raises(InputError, match="is in object storage; copy the traces here"),
    ):
        run.export(tmp_path / "run.zip", to="perfetto-manifest")


@nightly
def test_nsys_reports_are_left_out(corpus: Path, tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    traceweave.ingest(next((corpus / "nsys").glob("fsdp_2rank_before*")), database)
    with (
        traceweave.open(database) as run,
        pytest.raises(InputError, match="Perfetto can read none of this run's traces"),
    ):
        run.export(tmp_path / "run.zip", to="perfetto-manifest")
