"""Which files are loaded together: small ones, since planning the statements takes longer than
running them on one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from traceweave.sources.discover import Source
from traceweave.sources.formats import TakesSeveral

Numbered = Mapping[int, Source]
"""Files by their source_id."""

MOST_BYTES = 64 << 20
"""Of JSON loaded together: a pack takes no more memory than one large file does."""

_UNPACKED = 16
"""A packed trace is about this many times as large when it is unpacked."""


@dataclass
class _Pack:
    """Files of one format that have no rank in common."""

    files: dict[int, Source] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    bytes: int = 0

    def add(self, number: int, source: Source) -> None:
        self.files[number] = source
        self.ranks |= source.trace.by_rank.keys()
        self.bytes += _size(source)

    def takes(self, source: Source) -> bool:
        """Tell whether a file is of this format, and of none of these ranks."""
        format_ = next((other.format for other in self.files.values()), source.format)
        return format_ is source.format and self.ranks.isdisjoint(source.trace.by_rank)


def pack(numbered: Numbered, jobs: int) -> list[dict[int, Source]]:
    """Divide files into what is loaded together, the largest first; at least `jobs` parts, if there
    are as many files.
    """
    alone: list[_Pack] = []
    small: list[tuple[int, Source]] = []
    for number, source in sorted(numbered.items(), key=lambda item: -_size(item[1])):
        if is_small(source):
            small.append((number, source))
        else:
            alone.append(_Pack())
            alone[-1].add(number, source)
    parts = math.ceil(sum(_size(source) for _, source in small) / MOST_BYTES)
    packs = [_Pack() for _ in range(max(parts, jobs))]
    for number, source in small:
        fitting = [pack for pack in packs if pack.takes(source)]
        if not fitting:
            packs.append(_Pack())
            fitting = packs[-1:]
        min(fitting, key=lambda pack: pack.bytes).add(number, source)
    filled = [pack for pack in (*alone, *packs) if pack.files]
    return [pack.files for pack in sorted(filled, key=lambda pack: -pack.bytes)]


def bytes_of(numbered: Numbered) -> int:
    """Return about how much JSON all files are."""
    return sum(_size(source) for source in numbered.values())


def is_small(source: Source) -> bool:
    """Tell whether a file may share statements with others, from which its rank tells it."""
    return (
        isinstance(source.format, TakesSeveral)
        and bool(source.trace.by_rank)
        and _size(source) < MOST_BYTES
    )


def _size(source: Source) -> int:
    packed = source.trace.path.name.endswith(".gz")
    return source.trace.size_bytes * (_UNPACKED if packed else 1)
