"""Two-rank runs written row by row, whose comparison is worked out by hand."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path

import duckdb

from tests.analyses.builders import Builder
from traceweave.store.database import open_database
from traceweave.store.empty import create_tables

LENGTHS = (1500, 1010, 990, 1000, 700)
"""Step lengths in ns: a warm-up, three that count with mean 1000 and deviation 10, a cut one."""


@contextmanager
def run_of(
    lengths: Sequence[int] = LENGTHS,
    ranks: int = 2,
    gemm: int = 400,
    extra: str | None = None,
    grid: str = "[8,1,1]",
    change: Callable[[Builder], object] = lambda _: None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A run whose every step is a gemm, a gap of 100 ns, 200 ns of communication, and idle time.

    `extra` names one more kernel of 50 ns in the gap that follows, `change` does what it likes. The
    run is opened read-only, as users' are: what several tables read is computed once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.duckdb"
        with duckdb.connect(path) as con:
            create_tables(con)
            build = Builder(con)
            _build(build, lengths, ranks, gemm, extra, grid)
            change(build)
            build.write()
        with open_database(path) as con:
            yield con


def _build(
    build: Builder, lengths: Sequence[int], ranks: int, gemm: int, extra: str | None, grid: str
) -> None:
    edges = [0, *accumulate(lengths)]
    for rank in range(ranks):
        build.rank(rank)
        for step, (start, end) in enumerate(pairwise(edges)):
            at = start + gemm
            args = f'{{"grid": {grid}}}'
            build.gpu(rank, (start, at), name="gemm", step=step, args=args)
            build.gpu(rank, (at + 100, at + 300), "communication", "nccl", 20, step=step)
            if extra is not None:
                build.gpu(rank, (at + 300, at + 350), name=extra, step=step)
            build.step(rank, step, (start, end), (start, end))
    build.con.execute("UPDATE base.gpu_ops SET class = 'gemm' WHERE name = 'gemm'")
