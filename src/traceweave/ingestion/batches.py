"""Batches of ranks: what is loaded together, and becomes one shard of every large table.

A batch depends on its files alone and hands back all that others need of it, so it can be loaded
anywhere, and again if that fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from traceweave.ingestion.load import Outcome, Progress, load_all
from traceweave.ingestion.packs import Numbered
from traceweave.places import Place
from traceweave.store.draft import bound
from traceweave.store.manifest import Part
from traceweave.store.schema import create_base
from traceweave.store.shards import GATHERED, small_tables, write_shards

if TYPE_CHECKING:
    import pyarrow as pa

MOST_RANKS = 32
"""Of one batch, as far as ranks can be told apart: those of one file stay together."""


@dataclass(frozen=True)
class Batch:
    """Files whose ranks no other batch has."""

    number: int
    sources: Numbered


@dataclass(frozen=True)
class Batched:
    """What became of a batch."""

    outcomes: Sequence[Outcome]
    shards: Sequence[Part]
    small: Mapping[str, pa.Table]
    """Its rows of small tables, by the table's name."""


@dataclass(frozen=True)
class Here:
    """Loads batches in this process, one after the other, `jobs` files at a time."""

    jobs: int
    scratch: Path
    at_once: int = 1

    def load(
        self, batches: Sequence[Batch], folder: Place, progress: Progress
    ) -> Iterator[Batched]:
        """Yield what became of each batch."""
        for batch in batches:
            yield load_batch(batch, folder, self.scratch, self.jobs, progress)


def divide(numbered: Numbered, first: int = 0, at_once: int = 1) -> list[Batch]:
    """Divide files, in the order of their ranks, into batches that are numbered from `first` on,
    small enough that `at_once` of them can be loaded at the same time.
    """
    groups = [(ids, _weight(ids, numbered)) for ids in _apart(numbered)]
    most = min(MOST_RANKS, math.ceil(sum(weight for _, weight in groups) / at_once))
    batches: list[list[int]] = []
    ranks = most
    for ids, weight in groups:
        if ranks + weight > most:
            batches.append([])
            ranks = 0
        batches[-1] += ids
        ranks += weight
    return [
        Batch(first + i, {number: numbered[number] for number in sorted(ids)})
        for i, ids in enumerate(batches)
    ]


def load_batch(
    batch: Batch,
    folder: Place,
    scratch: Path,
    jobs: int,
    progress: Progress,
    most_mib: int | None = None,
) -> Batched:
    """Load a batch, `jobs` files at a time, and write its shards into the run folder `folder`.

    `scratch` is a folder for what does not fit into memory, of which DuckDB takes at most
    `most_mib`. A file that cannot be read is in the
    outcomes; OSError and DuckDB's own errors are of the places written to.
    """
    with duckdb.connect() as con:
        bound(con, scratch, jobs, most_mib)
        create_base(con)
        outcomes = load_all(con, batch.sources, jobs, progress)
        small = small_tables(con) + [f"base.{name}" for name in GATHERED]
        return Batched(
            outcomes,
            write_shards(con, folder, batch.number, list(batch.sources)),
            {table: con.sql(f"FROM {table}").to_arrow_table() for table in small},
        )


def _apart(numbered: Numbered) -> list[list[int]]:
    """Return the numbers of files in groups that have no rank in common, in the order given."""
    leads_to: dict[object, object] = {}

    def group(of: object) -> object:
        while leads_to.setdefault(of, of) != of:
            of = leads_to[of]
        return of

    for number, source in numbered.items():
        for rank in source.trace.by_rank:
            leads_to[group(("rank", rank))] = group(number)
    groups: dict[object, list[int]] = {}
    for number in numbered:
        groups.setdefault(group(number), []).append(number)
    return list(groups.values())


def _weight(numbers: Sequence[int], numbered: Numbered) -> int:
    """Return how many ranks files have together; a file without one takes as much as one rank."""
    ranks = {rank for number in numbers for rank in numbered[number].trace.by_rank}
    return max(1, len(ranks))
