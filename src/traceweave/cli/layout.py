"""Plain text tables that fit the width of the page."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from typing import TypeAlias

from traceweave.vocabulary import fitted
from traceweave.words import MISSING

WIDTH = 100
WIDEST = 160
"""Characters to a line of a note, however wide the page is."""
GAP = "  "
MOST_BLOCKS = 4
"""A table too wide for the page goes on below itself this often; then columns are left out."""
KEYS = frozenset(
    {"rank", "step", "op", "group_id", "device", "stream", "collective_id", "name"}
    | {"severity", "rule"}
)
"""Leading columns of these names, or else the first one, say what a row is."""
PROSE = frozenset({"evidence", "advice", "note", "reason", "message", "verdict", "scenario"})
"""Columns of these names hold sentences, which are broken over lines, never cut."""
NOTES = frozenset({"note", "reason"})
"""Columns of these names say why a value is missing or how it is meant, of many rows the same."""
LEAST_WIDTH = dict.fromkeys(PROSE, 32) | {"rule": 20}
"""Characters to a line that text gets at least, where that is not 12."""


Paint: TypeAlias = Callable[[str, str], str]
"""Colours a cell: from the heading of its column ('' for headings) and its text, as it is shown."""


def plain(_: str, text: str) -> str:
    """Leave a cell without colours."""
    return text


@dataclass(frozen=True)
class _Column:
    heading: str
    cells: list[str]
    numeric: bool

    @property
    def head(self) -> list[str]:
        """The heading, broken at underscores into short lines."""
        lines: list[str] = []
        for word in self.heading.split("_"):
            if lines and len(lines[-1]) + len(word) < 9:
                lines[-1] += "_" + word
            else:
                lines.append(word)
        return lines

    @property
    def empty(self) -> bool:
        return set(self.cells) <= {"", MISSING}

    @property
    def wanted(self) -> int:
        """Characters of its widest line, where nothing is cut."""
        return max(map(len, (*self.head, *self.cells)))

    @property
    def needed(self) -> int:
        """Numbers are never cut, text is."""
        if self.numeric:
            return self.wanted
        return min(self.wanted, max(LEAST_WIDTH.get(self.heading, 12), *map(len, self.head)))

    def lines(self, width: int) -> Iterator[list[str]]:
        """Yield what each cell shows in a column of this width, line by line."""
        if self.heading in PROSE:
            yield from (textwrap.wrap(cell, width) or [""] for cell in self.cells)
        else:
            shown = fitted(self.cells, width)
            yield from ([shown[cell]] for cell in self.cells)


def lay_out(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    width: int = WIDTH,
    only_filled: bool = False,
    paint: Paint = plain,
) -> tuple[list[str], list[str], list[str]]:
    """Return the lines of a table, and the headings of the columns that are left out: those without
    any value, and those that found no room.

    Text wider than the room is shortened, and stays different where it is; sentences are broken
    over lines. A table still too wide, or that is to have `only_filled` columns, drops those
    without any value. If that is not enough, it says once below what others have in every row, and
    goes on below itself, its key columns repeated. Notes that several rows share are below it, once
    each. Without rows there is nothing to say beyond the first columns.
    """
    columns = [
        _Column(heading, [row[i] for row in rows], numeric[i]) for i, heading in enumerate(headings)
    ]
    columns, footnotes, alike = _with_footnotes(columns)
    empty: list[str] = []
    if rows and (only_filled or _needed(columns) > width):
        empty = [column.heading for column in columns if column.empty]
        columns = [column for column in columns if not column.empty]
    if len(rows) > 1 and _needed(columns) > width:
        others = columns[len(_keys(columns)) :]
        same = [column for column in others if len(set(column.cells)) == 1]
        if len(same) < len(others):  # rows that are equal are a table all the same
            alike = same + alike
            columns = [column for column in columns if column not in alike]
    blocks = _blocks(columns, width)[: None if rows else 1]
    lines: list[str] = []
    for block in blocks[:MOST_BLOCKS]:
        lines += [*([""] if lines else []), *_draw(block, width, paint)]
    if not rows:
        return lines, [], []
    lines += [*_said_once(alike, width), *_numbered(footnotes, width)]
    shown = {id(column) for block in blocks[:MOST_BLOCKS] for column in block}
    return lines, empty, [c.heading for c in columns if id(c) not in shown]


def markdown(
    headings: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| " + " | ".join(map(escaped, headings)) + " |"]
    lines.append("|" + "|".join("---:" if number else "---" for number in numeric) + "|")
    lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]
    return lines


def _blocks(columns: Sequence[_Column], width: int) -> list[list[_Column]]:
    """Divide columns over blocks no wider than the page."""
    keys = _keys(columns)
    blocks = [list(keys)]
    for column in columns[len(keys) :]:
        block = blocks[-1]
        if len(block) > len(keys) and _needed((*block, column)) > width:
            blocks.append([*keys, column])
        else:
            block.append(column)
    return blocks


def _keys(columns: Sequence[_Column]) -> list[_Column]:
    """Return the columns that say what a row is, with which every block begins."""
    return list(takewhile(lambda column: column.heading in KEYS, columns[:3])) or [*columns[:1]]


def _said_once(columns: Sequence[_Column], width: int) -> list[str]:
    if not columns:
        return []
    values = "; ".join(f"{column.heading} = {column.cells[0]}" for column in columns)
    return ["", *_wrapped(f"In every row above: {values}", width)]


def _with_footnotes(
    columns: Sequence[_Column],
) -> tuple[list[_Column], list[str], list[_Column]]:
    """Return columns with numbers in place of notes that rows share, those notes, and the columns
    whose note is that of every row.
    """
    found: list[_Column] = []
    notes: list[str] = []
    alike: list[_Column] = []
    for column in columns:
        said = [cell for cell in column.cells if cell not in ("", MISSING)]
        if column.heading not in NOTES or len(set(said)) == len(said):
            found.append(column)
        elif len(set(column.cells)) == 1:
            alike.append(column)
        else:
            notes += [note for note in dict.fromkeys(said) if note not in notes]
            cells = [
                f"[{notes.index(cell) + 1}]" if cell in notes else cell for cell in column.cells
            ]
            found.append(replace(column, cells=cells))
    return found, notes, alike


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    width = min(width, WIDEST)
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def _numbered(notes: Sequence[str], width: int) -> list[str]:
    lines = [""] if notes else []
    for number, note in enumerate(notes, start=1):
        lines += _wrapped(f"[{number}] {note}", width, indent="    ")
    return lines


def _draw(block: Sequence[_Column], width: int, paint: Paint) -> list[str]:
    widths = _shrunk([column.wanted for column in block], [c.needed for c in block], width)
    depth = max((len(column.head) for column in block), default=0)
    heads = [[""] * (depth - len(column.head)) + column.head for column in block]
    numeric = [column.numeric for column in block]
    headings = [column.heading for column in block]
    unnamed = [""] * len(block)
    lines = [_line(level, widths, numeric, unnamed, paint) for level in zip(*heads, strict=True)]
    lines.append(paint("", GAP.join("─" * w for w in widths)))
    columns = [column.lines(w) for column, w in zip(block, widths, strict=True)]
    for cells in zip(*columns, strict=True):
        lines += [
            _line(line, widths, numeric, headings, paint)
            for line in zip_longest(*cells, fillvalue="")
        ]
    return lines


def _needed(columns: Sequence[_Column]) -> int:
    return _width([column.needed for column in columns])


def _width(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _shrunk(widths: list[int], least: Sequence[int], width: int) -> list[int]:
    """Take what is too much from the widest columns that can give."""
    for _ in range(max(_width(widths) - width, 0)):
        giving = [i for i in range(len(widths)) if widths[i] > least[i]]
        if not giving:
            break
        widths[max(giving, key=lambda i: widths[i])] -= 1
    return widths


def _line(
    cells: Sequence[str],
    widths: Sequence[int],
    numeric: Sequence[bool],
    headings: Sequence[str],
    paint: Paint,
) -> str:
    parts = []
    for cell, width, number, heading in zip(cells, widths, numeric, headings, strict=True):
        room = " " * (width - len(cell))
        shown = paint(heading, cell) if cell else ""
        parts.append(room + shown if number else shown + room)
    return GAP.join(parts).rstrip()


def escaped(cell: str) -> str:
    """Return text that Markdown shows as it is."""
    for character in "\\`*_<>|[]":
        cell = cell.replace(character, "\\" + character)
    return cell
