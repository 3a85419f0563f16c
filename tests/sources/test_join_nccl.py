"""NCCL's logs beside traces: whose processes they are of, and what ran for which size."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pandas import isna

import traceweave
from tests.marks import first_at_once, nightly
from tests.nccl_lines import HASH, Writer

PIDS = range(75, 83)
"""Of the ranks of corpus/kineto/nanogpt_8xh100, which does not say their host."""


@pytest.fixture
def traces(corpus: Path, tmp_path: Path) -> Path:
    """A folder with the traces of two of the eight ranks, for logs to lie beside."""
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in (0, 5):
        [trace] = (corpus / "kineto" / "nanogpt_8xh100").glob(f"*rank{rank}*")
        shutil.copy(trace, folder)
    return folder


@contextmanager
def ingested(folder: Path) -> Iterator[traceweave.Run]:
    database = folder.parent / "run.duckdb"
    traceweave.ingest(folder, database)
    with traceweave.open(database) as run:
        yield run


def world(pids: Any = PIDS, host: str = "gpu0") -> str:
    return "".join(
        Writer(pid, host, place).made(f"0x{place + 16:x}", place, 8)
        for place, pid in enumerate(pids)
    )


def rows(run: traceweave.Run, query: str) -> list[tuple[Any, ...]]:
    return run.con.execute(query).fetchall()


def ways(run: traceweave.Run, op: str = "all_gather") -> dict[int, tuple[Any, ...]]:
    found = run.bandwidth().astype(object)
    found = found.where(found.notna(), None).query(f"op == '{op}' and bytes > 0")
    columns = ["bytes", "algorithm", "protocol", "note"]
    return {bytes_: more for bytes_, *more in found[columns].itertuples(index=False)}


def test_processes_are_the_ranks_with_the_same_process_id(traces: Path) -> None:
    (traces / "nccl.log").write_text(world())
    with ingested(traces) as run:
        [found] = rows(run, "SELECT communicator, size, ranks, group_id FROM communicators")
        # two ranks are traced, and what is as large as the job tells the others
        assert found == (HASH, 8, [0, 1, 2, 3, 4, 5, 6, 7], 0)
        assert rows(run, "SELECT format FROM sources ORDER BY ALL") == [
            ("kineto",), ("kineto",), ("nccl_log",)
        ]  # fmt: skip


@first_at_once()
@pytest.mark.parametrize(
    ("hash_", "pid", "notes"),
    [
        # one job that makes a further communicator; several of its processes share a GPU
        (HASH, 76, 1), ("0x2", 75, 1),
        # another job, later, on the same GPUs
        ("0x2", 76, 2),
    ],
)  # fmt: skip
def test_logs_of_two_jobs_are_two(tmp_path: Path, hash_: str, pid: int, notes: int) -> None:
    """A process of another id on the same GPU, with no communicator in common."""
    for name, process, made in (("a", 75, HASH), ("b", pid, hash_)):
        (tmp_path / f"{name}.log").write_text(Writer(process).made("0x16", 0, 8, made))
    said = traceweave.ingest([tmp_path], tmp_path / "run.duckdb").notes
    assert len(said) == notes
    assert ("processes 75 and 76 used GPU 0 of node0" in said[0]) == (notes == 2)


@nightly
def test_a_file_for_each_process_is_as_good_as_one_for_all(traces: Path) -> None:
    for place, line in enumerate(world().splitlines(keepends=True)):
        (traces / f"nccl.gpu0.{75 + place}.log").write_text(line)
    (traces / "all.log").write_text(world())  # and the same again
    with ingested(traces) as run:
        found = rows(run, "SELECT size, ranks, known, group_id FROM communicators")
        assert found == [(8, list(range(8)), 8, 0)]


@nightly
def test_a_log_of_another_job_is_of_none_of_the_ranks(traces: Path) -> None:
    (traces / "nccl.log").write_text(world(range(1075, 1083)) + Writer(1075).chose("AllGather", 24))
    with ingested(traces) as run:
        [found] = rows(run, "SELECT ranks, group_id FROM communicators")
        assert found == ([None] * 8, None)
        [note] = rows(run, "SELECT message FROM ingest_issues WHERE message LIKE 'NCCL%'")
        assert note[0].startswith("NCCL's records: 0 of 8 processes")


@nightly
def test_bandwidth_tells_what_a_size_ran_with(traces: Path) -> None:
    rank0 = Writer(75, "gpu0")
    (traces / "nccl.log").write_text(
        world()
        + rank0.chose("AllGather", 77_266_944 // 8)
        + rank0.chose("AllGather", 192 // 8, "RING", "LL") * 3
        + rank0.chose("AllGather", 2304 // 8, "RING", "LL")
        + rank0.chose("AllGather", 2304 // 8, "PAT", "SIMPLE")
    )
    with ingested(traces) as run:
        found = ways(run)
        assert found[77_266_944][:2] == ["RING", "SIMPLE"]
        assert found[192][:2] == ["RING", "LL"]
        assert found[256][:2] == [None, None]  # the log has no line of it
        algorithm, protocol, note = found[2304]
        assert (algorithm, protocol) == (None, None)
        assert note.endswith("NCCL ran it as PAT SIMPLE and RING LL")
        assert set(map(tuple, (v[:2] for v in ways(run, "reduce_scatter").values()))) == {
            (None, None)
        }
        tails = run.tails().query("op == 'all_gather' and bytes_from == 67108864").iloc[0]
        assert (tails["algorithm"], tails["protocol"]) == ("RING", "SIMPLE")
        line = run.alpha_beta(time="shortest").query("op == 'all_gather'").iloc[0]
        assert isna(line["algorithm"])
        assert line["note"].endswith("NCCL ran it as PAT SIMPLE, RING LL and RING SIMPLE")


@nightly
def test_lines_that_may_be_of_two_communicators_tell_what_both_agree_on(traces: Path) -> None:
    rank0 = Writer(75, "gpu0")
    both = world() + rank0.made("0x99", 0, 4, "0xfe")
    (traces / "nccl.log").write_text(
        both
        + rank0.chose("AllGather", 192 // 8, "RING", "LL")
        + rank0.chose("AllGather", 2304 // 8, "RING", "LL")
        + rank0.chose("AllGather", 2304 // 8, "TREE", "LL")
    )
    with ingested(traces) as run:
        found = rows(run, "SELECT communicator, possible, bytes FROM nccl_choices"
                          " WHERE algorithm = 'RING' ORDER BY ALL")  # fmt: skip
        assert found == [
            (HASH, 2, 192), (HASH, 2, 2304), ("0xfe", 2, 96), ("0xfe", 2, 1152)
        ]  # fmt: skip
        assert ways(run)[192][:2] == ["RING", "LL"]
        assert ways(run)[2304][:2] == [None, None]


@nightly
def test_two_communicators_as_large_as_the_job_are_told_of_alike(traces: Path) -> None:
    rank0 = Writer(75, "gpu0")
    (traces / "nccl.log").write_text(
        world() + rank0.made("0x99", 0, 8, "0xfe") + rank0.chose("AllGather", 24, "RING", "LL")
    )
    with ingested(traces) as run:
        assert rows(run, "SELECT communicator, known, group_ids FROM communicators ORDER BY 1") == [
            (HASH, 8, [0]), ("0xfe", 1, [0])
        ]  # fmt: skip
        assert ways(run)[192][:2] == ["RING", "LL"]


@nightly
def test_logs_go_with_the_run_that_is_chosen(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(corpus / "kineto" / "torchrec_two_runs_in_one_folder", folder)
    (folder / "nccl.log").write_text(Writer(1).made("0xa", 0, 4))
    for number in (1, 2):
        database = tmp_path / f"run{number}.duckdb"
        traceweave.ingest(folder, database, run=number)
        with traceweave.open(database) as run:
            found = rows(run, "SELECT count(*) FROM sources WHERE format = 'nccl_log'")
            assert found == [(1,)]
