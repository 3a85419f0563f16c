"""How host ops lie in each other: the parent of each is the innermost range of the same thread that
encloses it (as in `nsys stats nvtx_pushpop_trace`).

Ranges of one nesting close in the reverse order they opened; those of two (two NVTX domains) may
cross. Where none cross, which is nearly always, all ranges of a thread nest as one and a single
sweep does; the rest is mended after it. DuckDB sorts the ranges, on disk if they are many. They
pass through numpy a batch at a time, and what later ones may lie in is carried over, so memory does
not grow with the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, pairwise

import duckdb
import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.vocabulary import script

BATCH_ROWS = 1 << 19
"""Ranges that are nested at a time, at some 150 bytes each."""

# A range of no length counts as 1 ns so that it closes after it opened.
_RANGES = """
CREATE OR REPLACE TEMP TABLE nested_ranges AS
SELECT
    hash(rank, pid, tid) AS thread, nesting,
    start_local_ns AS start_ns, start_local_ns + greatest(duration_ns, 1) AS end_ns, op_id
FROM new_host_ops WHERE nesting IS NOT NULL
ORDER BY thread, start_ns, end_ns DESC, op_id
"""


def nest_host_ops(con: duckdb.DuckDBPyConnection) -> None:
    """Find what each op of `new_host_ops` lies in: the temporary table `parents`.

    Its columns are op_id, depth (0 at the top) and parent_id.
    """
    con.execute(_RANGES)
    nest(con, "nested_ranges", "parents")
    if con.execute("SELECT 1 FROM parents WHERE crosses LIMIT 1").fetchall():
        con.execute(script(__package__, "crossed_ranges.sql"))
        nest(con, "crossed_ranges", "parents_apart")
        con.execute(script(__package__, "mend_nesting.sql"))
    con.execute("DROP TABLE nested_ranges")


def nest(con: duckdb.DuckDBPyConnection, ranges: str, parents: str) -> None:
    """Create the temporary table `parents` (thread, op_id, depth, parent_id, crosses).

    `ranges` is a temporary table (thread, start_ns, end_ns, op_id) in the order thread, start_ns,
    end_ns descending, op_id; all of them have a length. The depth is the number of ranges of the
    thread that are open where one starts (those that end there are not), the parent is the last of
    them one level up, and a range that ends later than that crosses it.
    """
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {parents}"
        " (thread UBIGINT, op_id BIGINT, depth INTEGER, parent_id BIGINT, crosses BOOLEAN)"
    )
    last, before = None, _NONE  # a thread may go on from one batch to the next
    for first in count(0, BATCH_ROWS):
        batch = con.sql(
            f"SELECT thread, start_ns, end_ns, op_id FROM {ranges} WHERE rowid BETWEEN $1 AND $2",
            params=[first, first + BATCH_ROWS - 1],
        ).fetchnumpy()
        threads, columns = batch["thread"], [batch[c] for c in ("start_ns", "end_ns", "op_id")]
        if not len(threads):
            return
        bounds = [0, *(np.flatnonzero(threads[1:] != threads[:-1]) + 1).tolist(), len(threads)]
        parts = []
        for at, stop in pairwise(bounds):
            if threads[at] != last:
                last, before = threads[at], _NONE
            of_thread = before.followed_by(*(column[at:stop] for column in columns))
            parts.append(_parents(of_thread, len(before)))
            before = of_thread.needed_later()
        depth, parent_id, lies_in, crosses = (np.concatenate(p) for p in zip(*parts, strict=True))
        nested = {  # which SQL finds by name  # noqa: F841
            "thread": threads, "op_id": batch["op_id"], "depth": depth, "parent_id": parent_id,
            "lies_in": lies_in, "crosses": crosses,
        }  # fmt: skip
        con.execute(
            f"INSERT INTO {parents} BY NAME SELECT * EXCLUDE (lies_in)"
            " REPLACE (CASE WHEN lies_in THEN parent_id END AS parent_id) FROM nested"
        )


@dataclass(frozen=True)
class _Ranges:
    """Ranges of one thread in the order of their starts, with their depths."""

    start: Ints
    end: Ints
    op_id: Ints
    depth: Ints

    def __len__(self) -> int:
        return len(self.start)

    def followed_by(self, start: Ints, end: Ints, op_id: Ints) -> _Ranges:
        """Return these and the next ranges of the thread, whose depths are found here."""
        ends = np.concatenate([self.end, end])
        opened = len(self) + np.arange(len(start))
        closed = np.searchsorted(np.sort(ends), start, side="right")
        return _Ranges(
            np.concatenate([self.start, start]),
            ends,
            np.concatenate([self.op_id, op_id]),
            np.concatenate([self.depth, opened - closed]),
        )

    def needed_later(self) -> _Ranges:
        """Return what later ranges may lie in: all that is open, and the last of each depth."""
        needed = self.end > self.start[-1]
        _, from_the_end = np.unique(self.depth[::-1], return_index=True)
        needed[len(self) - 1 - from_the_end] = True
        return _Ranges(self.start[needed], self.end[needed], self.op_id[needed], self.depth[needed])


_NONE = _Ranges(*(np.empty(0, np.int64) for _ in range(4)))


def _parents(ranges: _Ranges, first: int) -> tuple[Ints, Ints, Flags, Flags]:
    """Return depth, op_id of the parent, whether there is one, and whether the range crosses it,
    of the ranges from `first` on.
    """
    count = len(ranges)
    # one number for depth and position, so that "the last of this depth before here" is one search
    places = ranges.depth * count + np.arange(count)
    by_depth = np.sort(places)
    found = by_depth[np.searchsorted(by_depth, places[first:] - count) - 1]
    depth = ranges.depth[first:]
    one_up = (depth > 0) & (found // count == depth - 1)
    outer = found % count
    lies_in = one_up & (ranges.end[outer] > ranges.start[first:])
    crosses = one_up & (ranges.end[outer] < ranges.end[first:])
    return depth, ranges.op_id[outer], lies_in, crosses
