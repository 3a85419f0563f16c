"""What the page draws: a stretch of time of some lanes, as blocks or single operations.

Times count from the beginning of the run, in ns. An operation is drawn by itself where it is at
least a few pixels long; what is shorter is how busy its lane is in a block of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from traceweave.explorer.asking import Asking
from traceweave.explorer.levels import Levels
from traceweave.explorer.names import short_names
from traceweave.explorer.run import Explored
from traceweave.explorer.wire import coded, numbers, pack

FEW_OPS = 12_000
"""So many operations of a view are all drawn by themselves."""

MOST_NAMED = 200_000
"""So many operations are read with their names before it is known which of them are drawn."""

MOST_OPS = 40_000
"""More are not sent, whatever overlaps."""

PIXELS_ALONE = 3
"""An operation of this many blocks is drawn by itself."""

MOST_BLOCKS = 4_096
"""Across a view."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of time in about `blocks` blocks."""

    from_ns: int
    until_ns: int
    blocks: int

    @property
    def shift(self) -> int:
        """Blocks have 2^shift ns."""
        wanted = max(min(self.blocks, MOST_BLOCKS), 1)
        return max((max(self.until_ns - self.from_ns, 1) - 1) // wanted, 0).bit_length()


def device_view(
    run: Explored, levels: Levels, asking: Asking, stretch: Stretch, ranks: list[int]
) -> bytes:
    """Return what runs on the lanes of some ranks; `pending` are those that are not ready yet."""
    shift = stretch.shift
    level = levels.level(shift)
    shown = ranks if level is None else levels.ready(ranks)
    bounds = run.bounds(shown, stretch.from_ns, stretch.until_ns)
    # what is read for blocks serves for single operations too, unless it is too much for names
    named = level is None and _expected(run, stretch, shown) <= MOST_NAMED
    if level is None:
        asking.do("hits", **bounds, named=named, least_ns=0)
        blocks = asking.table("fine_blocks", **bounds, shift=shift)
    else:
        blocks = asking.table("coarse_blocks", **bounds, shift=level[0], by=level[1])
    few = _count(blocks) <= FEW_OPS
    least = 0 if few else PIXELS_ALONE << shift
    if not named:
        asking.do("hits", **bounds, named=True, least_ns=least)
    singles = asking.table("hits_alone", least_ns=least, most=MOST_OPS)
    if few:
        blocks = blocks.slice(0, 0)
    names, name_list = coded(singles, "name")
    classes, class_list = coded(singles, "class")
    columns = {
        **_blocks(blocks, shift, lane="u2", category="u1"),
        **numbers(
            singles,
            lane="u2",
            category="u1",
            op_id="f8",
            start_ns="f8",
            duration_ns="f8",
            step="i4",
            wait_ns="f8",
        ),
        "name": names,
        "class": classes,
    }
    head = {
        "from_ns": stretch.from_ns,
        "until_ns": stretch.until_ns,
        "block_ns": 1 << shift,
        "names": name_list,
        "shorts": short_names(name_list),
        "classes": class_list,
        "pending": sorted(set(ranks) - set(shown)),
    }
    return pack(head, columns)


def whole_view(run: Explored, levels: Levels, asking: Asking, blocks: int) -> bytes:
    """Return how busy all ranks are on the mean, over the whole run."""
    ready = levels.ready(list(run.ranks))
    shift = max(Stretch(0, run.span_ns + 1, blocks).shift, levels.shift)
    level, by = levels.level(shift) or (shift, 0)
    found = asking.table("whole", shift=level, by=by)
    columns = numbers(found, category="u1", block="f8", busy_ns="f8")
    columns["busy"] = columns.pop("busy_ns") / (1 << shift) / max(len(ready), 1)
    head = {"block_ns": 1 << shift, "pending": len(run.ranks) - len(ready)}
    return pack(head, columns)


def host_view(run: Explored, asking: Asking, stretch: Stretch, rank: int) -> bytes:
    """Return what the threads of a rank run, at every depth."""
    shift = stretch.shift
    bounds = {**run.bounds([rank], stretch.from_ns, stretch.until_ns), "rank": rank}
    least = PIXELS_ALONE << shift
    blocks = asking.table("host_blocks", **bounds, shift=shift, least_ns=least)
    few = _count(blocks) <= FEW_OPS
    singles = asking.table("host_singles", **bounds, least_ns=0 if few else least, most=MOST_OPS)
    if few:
        blocks = blocks.slice(0, 0)
    names, name_list = coded(singles, "name")
    columns = {
        **_blocks(blocks, shift, thread="i4", depth="i4", kind="u1"),
        **numbers(
            singles,
            thread="i4",
            depth="i4",
            kind="u1",
            op_id="f8",
            start_ns="f8",
            duration_ns="f8",
        ),
        "name": names,
    }
    head = {
        "from_ns": stretch.from_ns,
        "until_ns": stretch.until_ns,
        "block_ns": 1 << shift,
        "names": name_list,
    }
    return pack(head, columns)


def _expected(run: Explored, stretch: Stretch, ranks: list[int]) -> float:
    """Return how many operations a stretch has if it is like the whole run."""
    shown = set(ranks)
    ops = sum(lane.ops for lane in run.lanes if lane.rank in shown)
    return ops * (stretch.until_ns - stretch.from_ns) / run.span_ns


def _count(blocks: pa.Table) -> int:
    return int(pc.sum(blocks["ops"]).as_py() or 0)


def _blocks(blocks: pa.Table, shift: int, **keys: str) -> dict[str, Any]:
    """Return the columns of blocks, as `block_...`; busy is a share of the block."""
    found = numbers(blocks, **keys, block="f8", busy_ns="f4", ops="i4", longest_ns="f4")
    found["busy"] = found.pop("busy_ns") / (1 << shift)
    found["start_ns"] = found.pop("block") * (1 << shift)
    return {f"block_{name}": column for name, column in found.items()}
