"""Ranks a batch at a time, for statements whose header says `within: rank`: of all ranks only their
rows are kept, which DuckDB can spill, and their batches can be asked anywhere.

A batch is a connection of its own to the same run, in which the relations that grow with the events
have the rows of some ranks only. What ranks have in common is there as a whole; so is whether any
rank has GPU ops, which `device_ops` depends on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa

from traceweave.analyses.parameters import Value
from traceweave.analyses.statements import Statement
from traceweave.store.database import cursor_of, is_read_only
from traceweave.store.shards import FOLDER

GROWING = (
    "counters",
    "device_ops",
    "flows",
    "gpu_ops",
    "host_ops",
    "memory_events",
    "other_events",
)
"""Public relations of which a batch has the rows of its ranks only."""

MOST_BYTES = 4 << 30
"""The memory that a batch may take, as far as ranks allow, but at most half of what DuckDB may: the
rows that it leaves are kept. What takes no more of a run is asked as a whole, which costs less.
"""

_IN_BATCH = "in_batch"

RUN = """'"' || replace(current_database(), '"', '""') || '"'"""
"""SQL for the name of the run that a connection is asked of, as SQL writes it."""

Ranks: TypeAlias = str
"""The ranks of a batch: an SQL condition on the column `rank`."""


@dataclass(frozen=True)
class Elsewhere:
    """What answers batches in place of the connection that is asked."""

    at_once: int
    """How many batches are answered at the same time."""
    most_bytes: int
    """The memory that there is for one batch."""
    ask: Callable[[Statement, dict[str, Value], Sequence[Ranks]], Iterator[pa.Table]]
    """Yields the rows of one batch of a statement after the other."""


_elsewhere: WeakKeyDictionary[duckdb.DuckDBPyConnection, Elsewhere] = WeakKeyDictionary()


def answer_elsewhere(con: duckdb.DuckDBPyConnection, where: Elsewhere) -> None:
    """Have the batches of whatever is asked of `con` answered elsewhere."""
    _elsewhere[con] = where


def elsewhere(con: duckdb.DuckDBPyConnection) -> Elsewhere | None:
    """Return what answers the batches of `con`; None: the connection itself."""
    return _elsewhere.get(con)


def is_batch(con: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether a connection sees the events of some ranks only."""
    return con.execute(f"SELECT getvariable('{_IN_BATCH}')").fetchall() == [(True,)]


def divide(con: duckdb.DuckDBPyConnection, statement: Statement) -> list[Ranks]:
    """Return the batches of ranks, ascending, that a statement is to be asked of; none where it is
    asked of all ranks together.

    A database that can change is asked as a whole: other connections to it see what was committed.
    """
    if not statement.within_rank or not is_read_only(con) or is_batch(con):
        return []
    ((ranks, ops, limit),) = con.execute(_SIZE).fetchall()
    if len(ranks) < 2:
        return []
    where = elsewhere(con)
    here = (1, min(MOST_BYTES, limit // 2))
    at_once, most_bytes = (where.at_once, where.most_bytes) if where else here
    fitting = most_bytes * len(ranks) // max(ops * statement.bytes_per_op, 1)
    most = max(1, min(fitting, math.ceil(len(ranks) / at_once)))
    return conditions(ranks[most::most]) if most < len(ranks) else []


def conditions(edges: Sequence[int]) -> list[Ranks]:
    """Return the batches that begin with each of some ranks, and the one before; rows without a
    rank are in the last, since they come last.
    """
    lower = ["true", *(f"rank >= {edge}" for edge in edges)]
    upper = [*(f"rank < {edge}" for edge in edges), "true"]
    both = [f"{low} AND {high}" for low, high in zip(lower, upper, strict=True)]
    return [*both[:-1], f"({both[-1]} OR rank IS NULL)"]


@contextmanager
def batch(con: duckdb.DuckDBPyConnection, ranks: Ranks) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to the run behind `con` that sees the events of some ranks only."""
    ((run, folder),) = con.execute(f"SELECT {RUN}, getvariable('{FOLDER}')").fetchall()
    with cursor_of(con) as part:
        part.execute(f"USE {run}")
        part.execute(f"SET VARIABLE {FOLDER} = ?", [folder])
        part.execute(f"SET VARIABLE {_IN_BATCH} = true")
        for relation in GROWING:
            rows = f"FROM {run}.main.{relation} WHERE {ranks}"
            part.execute(f"CREATE TEMP VIEW {relation} AS {rows}")
        yield part


_OPS = "SELECT (SELECT count(*) FROM base.gpu_ops) + (SELECT count(*) FROM base.host_ops)"

_SIZE = f"""
SELECT
    (SELECT coalesce(list(DISTINCT rank ORDER BY rank), []) FROM base.rank_sources),
    ({_OPS}),
    parse_formatted_bytes(current_setting('memory_limit'))
"""
