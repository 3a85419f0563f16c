"""What rules say of jobs worked out by hand: by_hand/RULE.cases; times are ms."""

from __future__ import annotations

import json
from typing import Any

import duckdb

from tests.analyses.builders import Builder, check
from tests.told import Case, told

Part = tuple[Any, ...]
"""A name, how long it takes or the parts that it is made of, and its arguments if any."""

ACCUMULATE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
ADAM = "Optimizer.step#AdamW.step"
COMPILE = "compile_fx_inner (dynamo_timed)"
ON_CPU = {rank: {"gpu_op_id": None, "stream": 9} for rank in range(2)}
NS = 1e-6


class Job(Builder):
    """Steps one after another on the CPU."""

    at: float = 0

    def works(
        self,
        number: int,
        work: list[list[Part]],
        length: float | None = None,
        within: str = "",
        op: str = "all_reduce",
    ) -> None:
        """A step in which each rank does its work and asks for a sum, which is over 5 ms after the
        last has, and goes on, for 10 ms if no length is said; `within` is around work and call."""
        until = {rank: self._does(rank, number, self.at, own) for rank, own in enumerate(work)}
        end = max(until.values()) + 5
        last = end + 10 if length is None else self.at + length
        each: dict[int, dict[str, Any]] = {}
        for rank, asked in until.items():
            span = (asked + NS, asked + 2 * NS)
            call = self.host(rank, span, f"c10d::{op}_", depth=1 if within else 0, step=number)
            each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9}
            if op == "broadcast":
                each[rank]["root_place"] = 0
            if within:
                self.host(rank, (self.at, asked + 1), within, "annotation", step=number)
            self.step(rank, number, (self.at, last))
            self.host(rank, (end, last), "aten::mul", step=number)
        spans = {rank: (asked + 3 * NS, end) for rank, asked in until.items()}
        self.collective(spans, op, step=number, each=each)
        self.at = last

    def _does(
        self, rank: int, step: int, at: float, parts: list[Part], depth: int = 0, **more: Any
    ) -> float:
        for name, made_of, *args in parts:
            length = _length(made_of)
            is_range = ("::" not in name and name != COMPILE) or name.startswith("FSDP")
            op = self.host(
                rank, (at, at + length), name, "annotation" if is_range else "op", depth,
                step=step, args=json.dumps(args[0]) if args else None, **more,
            )  # fmt: skip
            if isinstance(made_of, list):
                self._does(rank, step, at, made_of, depth + 1, parent_id=op)
            at += length
        return at


def _length(made_of: float | list[Part]) -> float:
    return sum(_length(part[1]) for part in made_of) if isinstance(made_of, list) else made_of


def mm(length: float, rows: int = 8) -> Part:
    """A product of so many rows."""
    return "aten::mm", length, {"Input Dims": [[rows, 768], [768, 768]]}


def products(dtype: str, *lengths: float) -> list[Part]:
    """Products of numbers of a type."""
    args = {"Input Dims": [[8, 8]], "Input type": [dtype]}
    return [("aten::mm", length, args) for length in lengths]


@told
def test_by_hand(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(Job(empty_run, unit=1_000_000), case, **globals())
