"""A run of 3 ranks and 10 GPU ops whose critical path is worked out by hand.

Times in us; `A` to `D` are compute, `R` is one all-reduce of all three.

    rank 0   A 0-10            R 10-42   B 42-50
    rank 1   A 0-30            R 30-42   B 42-60
    rank 2   A 0-20  C 20-25   R 25-42   D 42-70

Rank 1 arrives last, at 30; the transfer takes 12. The end, at 70, waits for D of rank 2, that for
the transfer, and that for A of rank 1.
"""

from __future__ import annotations

from typing import Any

import duckdb

from tests.analyses.builders import Builder, words_of
from tests.told import Case
from traceweave.errors import UsageError
from traceweave.replay.model import Answer, Model

US = 1000
OPS = {
    0: (("A", 0, 10), ("R", 10, 42), ("B", 42, 50)),
    1: (("A", 0, 30), ("R", 30, 42), ("B", 42, 60)),
    2: (("A", 0, 20), ("C", 20, 25), ("R", 25, 42), ("D", 42, 70)),
}


def write(con: duckdb.DuckDBPyConnection) -> None:
    """Write the run into empty tables, as step 1."""
    run = Builder(con)
    run.group(0, [0, 1, 2])
    kernels: dict[int, int] = {}
    for rank, ops in OPS.items():
        run.rank(rank)
        run.step(rank, 1, (0, 100 * US), (0, ops[-1][2] * US))
        for name, start, end in ops:
            category = "communication" if name == "R" else "compute"
            op = run.gpu(rank, (start * US, end * US), category, name, step=1)
            if name == "R":
                kernels[rank] = op
    run.collective(
        {rank: (ops[-2][1] * US, ops[-2][2] * US) for rank, ops in OPS.items()},
        step=1,
        each={rank: {"gpu_op_id": op} for rank, op in kernels.items()},
    )
    run.write()


def check_replay(build: Builder, case: Case, **names: Any) -> None:
    """Write the rows of a case by methods of `build`, and compare what is replayed of them.

    `? SCENARIO | SCENARIO` asks what each gains, and last all together if they are several; `?
    predicted of SCENARIO` and the like for something else of the answer; `? by step of SCENARIO`
    what each step gains; `? measured` how long steps take, `? device
    windows` how long the device's are. Times are in units of the builder. What is refused is
    answered by what it says."""
    known = names | words_of(build)
    case.given(known)
    model = Model(build.con)

    def answer(query: str) -> list[tuple[Any, ...]]:
        if query == "device windows":
            assert model.windows.device is not None
            lengths = model.windows.device.lengths(model.graph.nodes) / build.unit
            return [tuple(lengths.tolist())]
        if query == "measured":
            return [(model.measured / build.unit,)]
        about, _, scenarios = query.rpartition(" of ")
        if about == "by step":
            after = model._replayed(model.changed(*model.parsed(scenarios)))
            before, now = (model.windows.by_step(of)[1] for of in (model.graph.nodes, after))
            return [tuple((before - now) / build.unit)]
        try:
            answers = model.answers(scenarios.split(" | "))
        except UsageError as error:
            return [(str(error),)]
        return [tuple(_of(one, about, build.unit) for one in answers)]

    case.holds(answer, known)


def _of(answer: Answer, about: str, unit: int) -> Any:
    if about == "by rank":
        return (answer.predicted_by_rank / unit).tolist()
    if about in ("bottleneck", "scenario"):
        return getattr(answer, about)
    predicted = answer.predicted_step_ns
    return (predicted if about == "predicted" else answer.measured_step_ns - predicted) / unit
