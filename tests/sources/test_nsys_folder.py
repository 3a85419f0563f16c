"""Exports that are folders of tables, one of them unreadable or odd."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.marks import at_once
from tests.sources.nsys_loading import load_export
from traceweave.errors import InputError
from traceweave.sources import nsys
from traceweave.sources.nsys.open_export import open_export

RECORDED = Path(__file__).parents[1] / "fixtures" / "mpi_nsys"


@pytest.fixture(params=at_once(["pqtdir", "arwdir"], "pqtdir"))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return shutil.copytree(RECORDED / f"all_ranks__2023.4_{request.param}", tmp_path / "report")


def table(folder: Path, name: str) -> Path:
    (found,) = folder.glob(f"{name}.*")
    return found


def test_an_unreadable_table_costs_that_table_only(folder: Path) -> None:
    file = table(folder, "MPI_P2P_EVENTS")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    loaded = load_export(folder)
    assert loaded.rows(
        "SELECT kind, count(*) FILTER (name LIKE 'MPI_%send' OR name LIKE 'MPI_%recv')"
        " FROM base.host_ops WHERE kind IN ('mpi') GROUP BY 1"
    ) == [("mpi", 0)]
    assert len(loaded.rows("SELECT step FROM base.steps")) == 12
    assert (loaded.loaded.damaged or "").startswith(file.name)


def test_a_folder_of_rubbish_is_refused(folder: Path) -> None:
    for file in folder.iterdir():
        file.write_bytes(b"rubbish")
    assert nsys.recognize(folder, b"")
    with pytest.raises(InputError, match="none of its tables can be read"):
        nsys.probe(folder)


def test_other_folders_are_no_exports(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "StringIds.parquet")
    assert not nsys.recognize(tmp_path, b"")


def test_payloads_labelled_as_text_are_read_as_bytes(tmp_path: Path) -> None:
    """nsys labels binaryData as UTF-8, which it is not; unsigned numbers keep their bits."""
    raw = pa.array([b"\xff\x00\xfe", None], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    columns = {"binaryData": text, "uint64Value": pa.array([2**64 - 1, 5], pa.uint64())}
    for name in ("StringIds", "META_DATA_EXPORT"):
        pq.write_table(pa.table({"id": [1]}), tmp_path / f"{name}.parquet")
    pq.write_table(pa.table(columns), tmp_path / "NVTX_EVENTS.parquet")
    types = {"binaryData": pa.binary(), "uint64Value": pa.int64(), "missing": pa.string()}
    with open_export(tmp_path) as export:
        (batch,) = export.batches("NVTX_EVENTS", types)
        assert export.rows("SELECT count(binaryData), max(uint64Value) FROM NVTX_EVENTS") == [
            (1, 5)
        ]
    assert batch.to_pylist() == [
        {"binaryData": b"\xff\x00\xfe", "uint64Value": -1, "missing": None},
        {"binaryData": None, "uint64Value": 5, "missing": None},
    ]


@pytest.mark.parametrize("name", ["report", "run [1]*'s"])
def test_queries_see_the_numbers_and_texts_of_the_sqlite_form(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    raw = pa.array([b"NCCL", b"\xffsum", None], pa.binary())
    columns = {
        "big": pa.array([2**64 - 1, 2**63, 7], pa.uint64()),
        "small": pa.array([255, 0, None], pa.uint8()),
        "plain": pa.array(["NCCL", "sum", None]),
        "odd": pa.Array.from_buffers(pa.string(), 3, raw.buffers()),
    }
    pq.write_table(pa.table(columns), folder / "NVTX_EVENTS.parquet")
    for other in ("StringIds", "META_DATA_EXPORT"):
        pq.write_table(pa.table({"id": [1]}), folder / f"{other}.parquet")
    with open_export(folder) as export:
        assert export.rows("SELECT big, big & -4, small, plain FROM NVTX_EVENTS") == [
            (-1, -4, 255, "NCCL"),
            (-(2**63), -(2**63), 0, "sum"),
            (7, 4, None, None),
        ]
        assert export.rows("SELECT odd FROM NVTX_EVENTS WHERE small = ?", [0]) == [("\ufffdsum",)]
        assert export.rows("SELECT big FROM NVTX_EVENTS WHERE small IS NULL") == [(7,)]
        assert export.rows("SELECT count(*) FROM NVTX_EVENTS") == [(3,)]
