"""op_work: what operators have to compute, by hand; times in op_work.cases are ns."""

import json
from typing import Any

import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.analyses.builders import Builder, Interval, check, rows
from tests.analyses.flops_run import counted, kernel
from tests.marks import nightly
from tests.told import Case, told
from traceweave.analyses import formulas, placed_ops
from traceweave.analyses.runner import provide

NO_SHAPES = formulas.NO_SHAPES


class Work(Builder):
    """Operators that say their FLOPs, and kernels."""

    def counted(self, at: Interval, flops: int, **more: Any) -> None:
        counted(self, at, flops, **more)

    def kernel(self, called: int, at: Interval, **more: Any) -> None:
        kernel(self, called, at, **more)

    def autocast(self) -> None:
        """An operator that calls itself, the last time in 16 bits, and another one; and again."""
        for depth, dtype in enumerate(("fp32", "fp32", "bf16"), 1):
            self.counted((10 * depth, 110 - 10 * depth), flops=8, dtype=dtype, depth=depth)
        self.counted((40, 70), flops=8, dtype="fp32", depth=4, name="triton_other")
        self.counted((110, 120), flops=8, dtype="fp32", depth=1)


@told
def test_op_work(empty_run: Connection, case: Case) -> None:
    check(Work(empty_run), case, **globals())


def test_calls_that_differ_in_nothing_that_counts_have_one_signature(build: Builder) -> None:
    build.rank(0)
    args = {"kernel_flop": 8, "Input Dims": [[2, 2]], "Input type": ["float"]}
    ids = [
        build.host(0, (at, at + 5), name, args=json.dumps(more | args))
        for at, name, more in (
            (0, "triton_a", {"External id": 1}),
            (10, "triton_a", {"External id": 2, "Ev Idx": 7}),
            (20, "triton_b", {"External id": 1}),
            (30, "triton_a", {"Concrete Inputs": [""]}),
        )
    ]
    provide(build.con, "FROM tw_placed_ops")
    numbers = dict(build.con.execute("SELECT op_id, signature FROM tw_placed_ops").fetchall())
    first, again, other_name, other_values = (numbers[op_id] for op_id in ids)
    assert first == again
    assert len({first, other_name, other_values}) == 3
    assert sorted(
        build.con.execute("SELECT * EXCLUDE (signature) FROM tw_call_work").fetchall()
    ) == [
        ("triton_a", "[[2,2]]", 8, None, "fp32", None),
        ("triton_a", "[[2,2]]", 8, None, "fp32", None),
        ("triton_b", "[[2,2]]", 8, None, "fp32", None),
    ]


@nightly
def test_ranks_are_read_some_at_a_time_with_the_same_rows(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(5):
        build.rank(rank)
        counted(build, (0, 10), flops=7 + rank % 2, rank=rank, step=rank)
        kernel(build, 1, (20, 30), rank=rank, step=rank, class_=("gemm", "norm")[rank % 2])
        counted(build, (0, 10), flops=70 + rank, rank=9, tid=rank)
    # a process that is no rank
    build.con.execute("UPDATE base.host_ops SET rank = NULL WHERE rank = 9")
    build.rank(7)
    build.gpu(7, (400, 404))
    at_once = rows(build.con, "op_work")
    assert len(at_once) == 11
    for most in (1, 6):
        monkeypatch.setattr(placed_ops, "MOST_HOST_OPS", most)
        assert rows(build.con, "op_work") == at_once


@nightly
def test_what_was_not_read_to_the_end_is_read_again(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.rank(0)
    counted(build, (0, 10), flops=7)
    provide(build.con, "FROM tw_placed_ops")
    with monkeypatch.context() as patch:
        patch.setattr(placed_ops, "_store", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            provide(build.con, "FROM tw_placed_ops")
    there = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'tw_placed_ops'"
    assert build.con.execute(there).fetchall() == [(0,)]
    assert [row["flops"] for row in rows(build.con, "op_work")] == [7]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
