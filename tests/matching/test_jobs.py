"""What is matched of simulated jobs, of which all is known: jobs.cases; nothing may be wrong."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.told import Case, told
from tests.traffic import woven
from traceweave_simulator.traffic import groups_of
from traceweave_simulator.traffic_jobs import DDP as DDP
from traceweave_simulator.traffic_jobs import TP_DP as TP_DP
from traceweave_simulator.traffic_jobs import TP_DP_ALIKE as TP_DP_ALIKE
from traceweave_simulator.traffic_jobs import TWO_STREAMS as TWO_STREAMS
from traceweave_simulator.traffic_jobs import UNIFORM as UNIFORM
from traceweave_simulator.traffic_jobs import Job as Job
from traceweave_simulator.traffic_jobs import Op, pipeline
from traceweave_simulator.traffic_jobs import pipeline_dp as pipeline_dp
from traceweave_simulator.traffic_tables import (
    clock_errors,
    outside_bounds,
    split_instances,
    wrong_matches,
)

HSDP_ON_ONE_STREAM = tuple(
    Op(group, op, size, transfer, compute, synchronous=True)
    for group, op, size, transfer, compute in (
        ("tp", "all_gather", 77_266_944, 220.0, 600.0),
        ("tp", "all_gather", 77_266_944, 220.0, 700.0),
        ("tp", "reduce_scatter", 77_266_944, 260.0, 900.0),
        ("dp", "all_reduce", 9_000_000, 130.0, 100.0),
        ("tp", "reduce_scatter", 77_266_944, 260.0, 700.0),
        ("dp", "all_reduce", 9_000_000, 130.0, 100.0),
    )
)
OUT_OF_TURN = tuple(pipeline(4)[n] for n in (8, 1, 7, 2, 6, 0, 4, 5, 10, 9, 11, 3, 12))


@dataclass(frozen=True)
class Over:
    """A number above this one."""

    least: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float) and other > self.least


class Under(Over):
    """A number that is not."""

    def __eq__(self, other: object) -> bool:
        return not super().__eq__(other)


def slower(program: tuple[Op, ...], times: float = 8) -> tuple[Op, ...]:
    return tuple(replace(op, compute_us=times * op.compute_us) for op in program)


def in_step(stages: int) -> tuple[Op, ...]:
    """A pipeline whose ranks of one stage end every part of it with a collective of their own."""
    together = Op("tp", "all_reduce", 33_554_432, 190.0, 300.0)
    messages = [op for op in pipeline(stages) if op.group.startswith("pp")]
    return tuple(one for op in messages for one in (together, replace(op, compute_us=0.0)))


def synchronous(*kinds: str) -> tuple[Op, ...]:
    return tuple(Op(kind, "all_reduce", 8, 22.0, 300.0, synchronous=True) for kind in kinds)


@told
def test_jobs(case: Case) -> None:
    """Events: a job, which ranks were not recorded, and a change of what is stored of it.

    `? matched` and `? calls`: the share and number of matched calls; `? split`: instances that are
    not whole, `? outside`: clocks beyond their bounds, `? off`: by how many us 95 % of clocks are
    off at most; `? inferred KINDS`: whether their groups, and no others, are."""
    job, *more = case.given({**globals(), "without": lambda *ranks: [*ranks]})
    without: Any = next((one for one in more if isinstance(one, list)), ())
    change: Any = next((one for one in more if isinstance(one, str)), None)
    with woven(job, without, change) as (con, run):
        assert wrong_matches(con, run) == 0

        def answer(query: str) -> list[tuple[Any, ...]]:
            word, *kinds = query.split()
            if word == "inferred":
                true = {tuple(sorted(of)) for kind in kinds for of in groups_of(job, kind).tolist()}
                of = "SELECT ranks FROM groups WHERE membership LIKE 'inferred%'"
                return [({tuple(ranks) for (ranks,) in con.execute(of).fetchall()} == true,)]
            counted = "SELECT count(collective_id), count(*) FROM base.matches"
            calls, of_all = con.execute(counted).fetchall()[0]
            found = {
                "matched": lambda: calls / of_all,
                "calls": lambda: calls,
                "split": lambda: split_instances(con, run),
                "outside": lambda: len(outside_bounds(con, run)),
                "off": lambda: float(np.percentile(np.abs(clock_errors(con, run)), 95)),
            }
            return [(found[query](),)] if query in found else con.execute(query).fetchall()

        case.holds(answer, {"over": Over, "under": Under})
