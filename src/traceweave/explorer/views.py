"""What the page draws: a stretch of time of some lanes, as blocks or single operations.

Times count from the beginning of the run, in ns. An operation is drawn by itself where it is at
least a few pixels long; what is shorter is how busy its lane is in a block of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceweave.explorer.asking import Asking
from traceweave.explorer.levels import Levels
from traceweave.explorer.run import Explored
from traceweave.explorer.wire import coded, numbers, pack
from traceweave.vocabulary import readable, without_namespaces

FEW_OPS = 12_000
"""So many operations of a view are all drawn by themselves."""

MOST_NAMED = 500_000
"""So many operations are read with their names before it is known which of them are drawn."""

NEVER = (1 << 63) - 1
"""Longer than any operation."""

MOST_OPS = 40_000
"""More are not sent, whatever overlaps."""

PIXELS_ALONE = 3
"""An operation of this many blocks is drawn by itself."""

MOST_BLOCKS = 4_096
"""Across a view."""

LONGEST_NAME = 120
"""Characters that an operation is ever wide enough for."""

_NO_BLOCKS = pa.table(
    {
        name: pa.array([], pa.int64())
        for name in ("lane", "category", "thread", "depth", "kind", "block", "busy_ns", "ops")
    }
)


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
    run: Explored,
    levels: Levels,
    asking: Asking,
    stretch: Stretch,
    ranks: list[int],
    *,
    patient: bool,
) -> bytes:
    """Return what runs on the lanes of some ranks; `pending` are those that are not ready yet.

    Blocks are longer than wanted while the level of such short ones is made: the answer is
    `blurred` then. With patience a while is waited for all ranks, and for what is sharp.
    """
    shift = stretch.shift
    level = levels.level(shift)
    if patient and level is not None:
        levels.ready(asking, level[0], ranks, patient=True)
    if blurred := levels.are_late(shift, ranks):
        shift = levels.first
        level = levels.level(shift)
    shown = ranks if level is None else levels.ready(asking, level[0], ranks)
    # who waits for a level does not hold it up
    with nullcontext() if patient else levels.passing():
        blocks, singles = _device_rows(run, asking, stretch, shown, shift, level)
    names, name_list = coded(singles, "name")
    classes, class_list = coded(singles, "class")
    return _view(
        stretch,
        shift,
        blocks,
        singles,
        {"lane": "u2", "category": "u1"},
        {**numbers(singles, step="i4", wait_ns="f8"), "name": names, "class": classes},
        {
            "names": name_list,
            "shorts": short_names(name_list),
            "classes": class_list,
            "pending": sorted(set(ranks) - set(shown)),
            "blurred": blurred and blocks.num_rows > 0,
        },
    )


def _device_rows(
    run: Explored,
    asking: Asking,
    stretch: Stretch,
    ranks: list[int],
    shift: int,
    level: tuple[int, int] | None,
) -> tuple[pa.Table, pa.Table]:
    """Return blocks, none where operations are few, and the operations that stand alone."""
    bounds = run.bounds(ranks, stretch.from_ns, stretch.until_ns)
    alone = PIXELS_ALONE << shift
    # what is read for blocks serves for single operations too, but for names that were left out
    named = NEVER if level is not None else _named_from(_expected(run, stretch, ranks), alone)
    if level is None:
        asking.do("hits", **bounds, named_ns=named, least_ns=0)
        few = _sum(asking.table("count_hits")) <= FEW_OPS
        blocks = _NO_BLOCKS if few else asking.table("fine_blocks", **bounds, shift=shift)
    else:
        blocks = asking.table("coarse_blocks", **bounds, shift=level[0], by=level[1])
        few = _sum(blocks) <= FEW_OPS
    least = 0 if few else alone
    if named > least:
        asking.do("hits", **bounds, named_ns=0, least_ns=least)
    singles = asking.table("hits_alone", least_ns=least, most=MOST_OPS)
    return _NO_BLOCKS if few else blocks, singles


def whole_view(run: Explored, levels: Levels, asking: Asking, blocks: int) -> bytes:
    """Return how busy all ranks are on the mean, over the whole run."""
    shift = max(Stretch(0, run.span_ns + 1, blocks).shift, levels.first)
    level, by = levels.level(shift) or (shift, 0)
    ready = levels.ready(asking, level, list(run.ranks), patient=True)
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
    few = _sum(blocks) <= FEW_OPS
    singles = asking.table("host_singles", **bounds, least_ns=0 if few else least, most=MOST_OPS)
    names, name_list = coded(singles, "name")
    return _view(
        stretch,
        shift,
        _NO_BLOCKS if few else blocks,
        singles,
        {"thread": "i4", "depth": "i4", "kind": "u1"},
        {"name": names},
        {"names": name_list},
    )


def _expected(run: Explored, stretch: Stretch, ranks: list[int]) -> float:
    """Return how many operations a stretch has if it is like the whole run."""
    shown = set(ranks)
    ops = sum(lane.ops for lane in run.lanes if lane.rank in shown)
    return ops * (stretch.until_ns - stretch.from_ns) / run.span_ns


def _named_from(expected: float, alone: int) -> int:
    """Return how long operations are that are read with their names: all where few are expected,
    none of very many.
    """
    if expected <= 2 * FEW_OPS:
        return 0
    return alone if expected <= MOST_NAMED else NEVER


def _sum(counted: pa.Table) -> int:
    """Return how many operations rows stand for."""
    return int(pc.sum(counted["ops"]).as_py() or 0)


def _view(
    stretch: Stretch,
    shift: int,
    blocks: pa.Table,
    singles: pa.Table,
    place: dict[str, str],
    columns: dict[str, npt.NDArray[Any]],
    head: dict[str, object],
) -> bytes:
    """Return blocks and single operations as bytes; `place` are the columns that say which row."""
    times = numbers(singles, **place, op_id="f8", start_ns="f8", duration_ns="f8")
    head |= {
        "from_ns": stretch.from_ns,
        "until_ns": stretch.until_ns,
        "block_ns": 1 << shift,
    }
    return pack(
        head,
        {
            **_blocks(blocks, stretch.from_ns >> shift, shift, place),
            **times,
            **columns,
        },
    )


def _blocks(
    blocks: pa.Table, first: int, shift: int, place: dict[str, str]
) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of blocks, as `block_...`.

    `at` counts blocks from the `first`; busy is a share of the block.
    """
    found = numbers(blocks, **place, busy_ns="f4", ops="i4")
    found["busy"] = found.pop("busy_ns") / (1 << shift)
    found["at"] = (blocks["block"].to_numpy() - first).astype(np.int32)
    return {f"block_{name}": column for name, column in found.items()}


def short_names(names: Sequence[str]) -> list[str]:
    """Return names without what says least where there is no room: namespaces.

    'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)' is
    'vectorized_elementwise_kernel<4, AddFunctor<float> >'.
    """
    known = readable(names)
    return [without_namespaces(known[name])[:LONGEST_NAME] for name in names]
