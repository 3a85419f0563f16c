"""Code that torch.compile made for a CPU calls no operator: the range in which it runs tells."""

import json
from pathlib import Path

import pytest

import traceweave
from tests.marks import nightly
from traceweave.replay.model import Model

RANKS = 2


def _write(path: Path, rank: int) -> None:
    """20 turns of 90 us and more, never the same: 10 us of an operator, then code, of rank 1 for
    10 us longer, then an all-reduce until both are there, 10 us long; all in one range."""
    events: list[dict[str, object]] = []
    at = 1_000_000

    def add(name: str, begin: int, length: int, cat: str = "cpu_op") -> None:
        events.append({
            "ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": begin, "dur": length
        })  # fmt: skip

    for turn in range(20):
        long = 80 + 7 * turn * turn % 97
        add("_C::weight_packed_linear", at, 10)
        add("_C::shm_allreduce", at + long - 10 * (not rank), 10 + 10 * (not rank))
        at += long + 10
    add("## Call CompiledFxGraph abc ##", 1_000_000 - 10, at + 20 - 1_000_000, "user_annotation")
    path.parent.mkdir(exist_ok=True)
    info = {"rank": rank, "world_size": RANKS, "backend": "gloo"}
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))


@pytest.fixture
def run(tmp_path: Path) -> traceweave.Run:
    for rank in range(RANKS):
        _write(tmp_path / "traces" / f"rank{rank}.pt.trace.json", rank)
    traceweave.ingest([tmp_path / "traces"], tmp_path / "run.duckdb")
    return traceweave.open(tmp_path / "run.duckdb")


def test_compiled_code_is_compute(run: traceweave.Run) -> None:
    """Rank 1 never waits: all but 20 transfers of 10 us is compute; rank 0 waits 10 us for each."""
    with run:
        rows = run.breakdown().set_index("rank")[["compute_ns", "comm_ns", "idle_ns"]]
    compute_ns = 1000 * (20 + sum(80 + 7 * turn * turn % 97 for turn in range(20)))
    assert rows.loc[1].tolist() == [compute_ns, 200_000, 0]
    assert rows.loc[0].tolist() == [compute_ns - 200_000, 400_000, 0]


@nightly
def test_what_is_asked_for_after_compute_comes_as_much_earlier(run: traceweave.Run) -> None:
    """Compute in half the time, of which rank 1 has most; transfers take as long as before."""
    with run:
        compute_ns = run.breakdown()["compute_ns"].max()
        model = Model(run.con)
        halved, _ = model.step("kind=compute times=0.5")
    assert model.measured - halved == pytest.approx(compute_ns / 2, rel=0.02)
