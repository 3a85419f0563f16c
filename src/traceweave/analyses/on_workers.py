"""Batches of ranks that Dask's workers answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from traceweave.analyses.batches import Elsewhere, Ranks, answer_elsewhere
from traceweave.analyses.catalog import called
from traceweave.analyses.parameters import Value
from traceweave.analyses.runner import answer_batch
from traceweave.analyses.statements import Statement
from traceweave.ingestion.workers import Workers, memory_mib
from traceweave.places import Place, place_of
from traceweave.store.database import open_database


def answer_on(workers: Workers, con: duckdb.DuckDBPyConnection, path: str | Path) -> None:
    """Have workers answer the batches of what is asked of `con`, which is the run at `path`."""
    place = place_of(path)
    run = place.path if place.local is not None else place  # absolute
    most_bytes = (workers.memory_mib << 20) // 2  # the rest is for Python and the rows
    answer_elsewhere(con, Elsewhere(workers.at_once, most_bytes, partial(_ask, workers, run)))


def _ask(
    workers: Workers,
    run: str | Place,
    statement: Statement,
    values: dict[str, Value],
    batches: Sequence[Ranks],
) -> Iterator[pa.Table]:
    tasks = [(run, statement.kind, statement.name, values, ranks) for ranks in batches]
    return workers.in_order(_answer, tasks)


def _answer(
    run: str | Place, kind: str, name: str, values: dict[str, Value], ranks: Ranks
) -> pa.Table:
    """Answer a batch, on a worker."""
    with open_database(run, most_mib=memory_mib()) as con:
        return answer_batch(con, called(kind, name), values, ranks)
