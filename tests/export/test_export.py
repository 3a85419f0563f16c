"""Exports as users ask for them: the API and the command."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import traceweave
from tests.cases import cases
from tests.conftest import Captured
from tests.export.reading import read
from tests.marks import nightly
from traceweave.cli.main import main
from traceweave.errors import TraceweaveError, UsageError
from traceweave.store.schema import public_relations


@pytest.fixture
def database(fixtures: Path, database_of: Callable[..., Path]) -> Path:
    return database_of(fixtures / "ddp_gloo_straggler")


def test_every_public_relation_becomes_one_parquet_file(database: Path, tmp_path: Path) -> None:
    with traceweave.open(database) as run:
        folder = run.export(tmp_path / "out" / "run", to="parquet")
        counts = {
            relation.name: run.con.execute(f"SELECT count(*) FROM {relation.name}").fetchall()[0][0]
            for relation in public_relations()
        }
        exact = run.con.execute("SELECT * FROM steps ORDER BY rank, step").fetchall()

    files = {path.name: pq.read_metadata(path).num_rows for path in folder.iterdir()}
    assert files == {f"{name}.parquet": count for name, count in counts.items()}
    with duckdb.connect() as con:
        again = con.read_parquet(str(folder / "steps.parquet")).order("rank, step").fetchall()
    assert again == exact


def test_parquet_files_hold_the_whole_run(database: Path, tmp_path: Path) -> None:
    with traceweave.open(database) as run:
        with pytest.raises(UsageError, match="Parquet files hold the whole run"):
            run.export(tmp_path, to="parquet", ranks=[0])
        with pytest.raises(UsageError, match="there is no export to 'csv'"):
            run.export(tmp_path, to="csv")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said(database: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        traceweave.open(database) as run,
        pytest.raises(UsageError, match="file: is a file; name a folder"),
    ):
        run.export(tmp_path / "file", to="parquet")


def test_the_database_is_not_overwritten(database: Path) -> None:
    with (
        traceweave.open(database) as run,
        pytest.raises(UsageError, match="is read by this command"),
    ):
        run.export(database)


@cases
def test_no_file_has_a_name_that_promises_another_format(
    database: Path, tmp_path: Path, capsys: Captured, to: str, name: str, said: str
) -> None:
    target = tmp_path / name
    assert main(["export", str(database), "--to", to, "-o", str(target)]) == 2
    assert capsys.readouterr().err == f"traceweave: error: {target}: {said}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_part_of_the_timeline(
    database: Path, tmp_path: Path, capsys: Captured
) -> None:
    target = tmp_path / "part.pftrace"

    code = main(
        f"export {database} --to perfetto -o {target} --ranks 1,3 --steps 3-4 --from +1ms".split()
    )

    out, err = capsys.readouterr()
    assert (code, out) == (0, "")
    assert err == f"wrote {target}; open it in https://ui.perfetto.dev\n"
    timeline = read(target)
    assert {timeline.rank(s.track) for s in timeline.slices} == {1, 3}
    assert {s.name for s in timeline.slices if timeline.path(s.track)[1] == "steps"} == {
        "step 3",
        "step 4",
    }


@nightly
def test_the_command_names_the_files_after_the_database(
    database: Path, tmp_path: Path, capsys: Captured
) -> None:
    mine = Path(shutil.copy(database, tmp_path / "run.duckdb"))
    assert main(["export", str(mine)]) == 0
    assert main(["export", str(mine), "--to", "parquet"]) == 0
    capsys.readouterr()
    assert (tmp_path / "run.pftrace").stat().st_size > 0
    assert (tmp_path / "run-parquet" / "gpu_ops.parquet").is_file()


def test_a_wrong_selection_is_one_line(database: Path, capsys: Captured) -> None:
    code = main(["export", str(database), "--ranks", "0,7"])
    assert code == 2
    assert capsys.readouterr().err == (
        "traceweave: error: rank 7 is not in this run; it has ranks 0-3\n"
    )


def test_without_perfettos_classes_the_way_out_is_one_line(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with (
        traceweave.open(database) as run,
        pytest.raises(TraceweaveError, match=r"pip install 'perfetto>=0\.57' 'protobuf>=6\.31\.1'"),
    ):
        run.export(tmp_path / "run.pftrace")
