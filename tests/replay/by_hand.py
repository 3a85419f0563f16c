"""A run of 3 ranks and 10 GPU ops whose critical path is worked out by hand.

Times in us; `A` to `D` are compute, `R` is one all-reduce of all three.

    rank 0   A 0-10            R 10-42   B 42-50
    rank 1   A 0-30            R 30-42   B 42-60
    rank 2   A 0-20  C 20-25   R 25-42   D 42-70

Rank 1 arrives last, at 30; the transfer takes 12. The end, at 70, waits for D of rank 2, that for
the transfer, and that for A of rank 1.
"""

from __future__ import annotations

import duckdb

from tests.analyses.builders import Builder

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
