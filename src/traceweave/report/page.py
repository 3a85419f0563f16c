"""What a page is made of: sections with figures, tables and their queries, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, groupby
from typing import Any, ClassVar, Literal, NamedTuple

from traceweave import words
from traceweave.analyses.blocks import Block

Value = str | int | float | bool | list[int] | None
Kind = Literal[
    "text", "name", "int", "count", "duration", "percent", "bytes", "rate", "ratio", "number"
]

_WRITERS = {
    "bytes": words.size,
    "rate": words.rate,
    "ratio": words.ratio,
    "number": words.number,
}
_LONG_NAME = 72


@dataclass(frozen=True)
class Column:
    """One column of a table; `kind` decides how its values are written and sorted."""

    label: str
    kind: Kind = "text"
    note: str = ""
    """Explanation shown on hover and read with the header."""
    own_unit: bool = False
    """A duration that chooses its unit without regard to the table's other durations."""
    own_decimals: bool = False
    """A duration in the table's unit, with the decimals that its own largest needs: changes."""
    shared_unit: bool = False
    """A size in one unit with the table's others of this kind, to be compared."""
    group: str = ""
    """Neighbours of the same group stand under one common header."""


class Cell(NamedTuple):
    """One value ready for the page: `text` is shown, `sort` is what it sorts by ('' is last)."""

    text: str
    sort: str
    full: str = ""
    """The whole of a name, or of a list of ranks, that `text` shortens."""


class Span(NamedTuple):
    """A header over `columns` neighbouring columns; empty over columns without a group."""

    label: str
    columns: int


class Head(NamedTuple):
    """A column's header ready for the page."""

    label: str
    unit: str
    note: str
    numeric: bool


@dataclass(frozen=True)
class Table:
    """Rows under documented columns; durations share one unit, chosen from the largest."""

    WIDE: ClassVar = 28
    """Characters that a cell of text has on one line."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""
    """What the table leaves out."""
    folded: bool = False
    """Shown only when the reader opens it."""
    origin: str = ""
    """Title of the section's origin that these rows come from; '' is the first."""

    @property
    def wordy(self) -> bool:
        """Whether several columns are sentences or long names, which no phone has side by side."""
        long = (
            any(isinstance(text := row[i], str) and len(text) > self.WIDE for row in self.rows)
            for i in range(len(self.columns))
        )
        return sum(long) > 1

    def known(self) -> Table:
        """Return the table without the columns that no row has a value in, and a note of them."""
        known = [any(row[i] is not None for row in self.rows) for i in range(len(self.columns))]
        if all(known) or not self.rows:
            return self
        missing = [c.label for c, any_ in zip(self.columns, known, strict=True) if not any_]
        return replace(
            self,
            columns=tuple(compress(self.columns, known)),
            rows=tuple(tuple(compress(row, known)) for row in self.rows),
            note=" ".join(filter(None, (f"Without a value: {', '.join(missing)}.", self.note))),
        )

    def heads(self) -> list[Head]:
        """Return the headers with their units."""
        return [
            Head(
                column.label,
                scale.unit if scale else "%" if column.kind == "percent" else "",
                column.note,
                column.kind not in ("text", "name"),
            )
            for column, scale in zip(self.columns, self._scales(), strict=True)
        ]

    def labels(self) -> list[str]:
        """Return what stands before each cell where a row is a list: group, heading and unit."""
        return [
            " ".join(filter(None, (column.group, head.label, head.unit)))
            for column, head in zip(self.columns, self.heads(), strict=True)
        ]

    def spans(self) -> list[Span]:
        """Return the headers over groups of columns, or nothing if no column has a group."""
        runs = [(label, len(list(run))) for label, run in groupby(c.group for c in self.columns)]
        return [Span(*run) for run in runs] if any(label for label, _ in runs) else []

    def cells(self) -> list[list[Cell]]:
        """Return the rows as text in the columns' units."""
        scales = self._scales()
        return [
            [
                _cell(value, column.kind, scale)
                for value, column, scale in zip(row, self.columns, scales, strict=True)
            ]
            for row in self.rows
        ]

    def _scales(self) -> list[words.Scale | None]:
        shared = [i for i, c in enumerate(self.columns) if c.kind == "duration" and not c.own_unit]
        sizes = [i for i, c in enumerate(self.columns) if c.shared_unit]
        common = self._scale(shared)
        size = words.size_scale(self._largest(sizes))
        return [
            self._own(i, column, common)
            if column.kind == "duration"
            else size
            if column.shared_unit
            else None
            for i, column in enumerate(self.columns)
        ]

    def _own(self, place: int, column: Column, common: words.Scale) -> words.Scale:
        own = self._scale([place])
        if column.own_unit:
            return own
        if column.own_decimals:
            return common._replace(decimals=own.decimals + common.power - own.power)
        return common

    def _scale(self, columns: list[int]) -> words.Scale:
        return words.duration_scale(self._largest(columns))

    def _largest(self, columns: list[int]) -> int | float:
        values = [row[i] for row in self.rows for i in columns]
        return max((abs(v) for v in values if isinstance(v, int | float)), default=0)


@dataclass(frozen=True)
class Figure:
    """One chart; `chart` is what assets/charts.js draws, times in integer nanoseconds."""

    name: str
    title: str
    unit: str
    label: str
    """What a screen reader says: what is drawn and which table holds the numbers."""
    chart: dict[str, Any]
    height: int = 320
    """CSS pixels."""
    origin: str = ""
    """Title of the section's origin that this is drawn from; '' is the first."""


@dataclass(frozen=True)
class Bar:
    """One bar of a list in which each takes something off the one above; drawn without scripts."""

    label: str
    anchor: str
    """Where on the page it is explained."""
    left: float
    """Its length, as a share of the longest."""
    gained: float
    """What it is shorter than the one above, as a share of the longest."""
    text: str
    """Both in numbers."""
    code: str = ""
    """The command that asks for it; '' for none."""


class Link(NamedTuple):
    """A way to somewhere on the page."""

    text: str
    anchor: str
    place: str = ""
    """Where on the timeline it leads, as JSON; '' for elsewhere."""


class Card(NamedTuple):
    """One finding."""

    anchor: str
    """Its id on the page, among all findings."""
    sign: str
    said: Block
    by_the_day: str = ""
    """What it costs then; '' where that is not known."""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Origin:
    """Where numbers come from: the command or query that gives the same rows."""

    title: str
    code: str


RUN = "run.duckdb"
"""How commands name the run until the page is told its name."""


@dataclass(frozen=True)
class Section:
    """One part of the page; `empty` replaces figures and tables when there is nothing to show."""

    anchor: str
    title: str
    lead: str
    notes: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    bars: tuple[Bar, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    origins: tuple[Origin, ...] = ()
    empty: str = ""
    terms: dict[str, str] = field(default_factory=dict)
    """Words of this section that a table cannot explain by itself, with their meaning."""

    def of(self, run: str) -> Section:
        """Return the section with commands that name the run; `run` is how a shell does."""

        def named(text: str) -> str:
            return text.replace(f" {RUN}", f" {run}")

        return replace(
            self,
            bars=tuple(replace(bar, code=named(bar.code)) for bar in self.bars),
            tables=tuple(replace(table, note=named(table.note)) for table in self.tables),
            origins=tuple(replace(one, code=named(one.code)) for one in self.origins),
        )

    @property
    def ids(self) -> frozenset[str]:
        """Ids on the page of the figures and tables that it shows."""
        if self.empty:
            return frozenset()
        figures = {f"figure-{figure.name}" for figure in self.figures}
        return frozenset(figures | {f"table-{table.name}" for table in self.tables if table.rows})

    def origin_id(self, title: str) -> str:
        """Return the id on the page of the origin with this title; '' is the first.

        Raises ValueError if the section has no such origin.
        """
        titles = [origin.title for origin in self.origins]
        return f"{self.anchor}-sql-{titles.index(title) + 1 if title else 1}"


def bars(
    categories: list[str],
    *series: tuple[str, str, Sequence[Value]],
    axis: str = "",
    measure: str = "duration",
    **more: object,
) -> dict[str, Any]:
    """Return a chart of bars: label, role and values of each series. Without an `axis`, names stand
    beside bars that lie."""
    return {
        "kind": "bars",
        "horizontal": not axis,
        "axis": axis,
        "categories": categories,
        "measure": measure,
        "series": [{"label": label, "role": role} for label, role, _ in series],
        "variants": [{"label": "", "values": [list(values) for _, _, values in series]}],
        **more,
    }


def chart_labels(names: Iterable[str]) -> list[str]:
    """Shorten names for an axis and number those that repeat: it shows equal ones once."""
    seen: dict[str, int] = {}
    labels = []
    for name in map(words.shortened, names):
        seen[name] = seen.get(name, 0) + 1
        labels.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return labels


def _cell(value: Value, kind: Kind, scale: words.Scale | None) -> Cell:
    if value is None:
        return Cell(words.MISSING, "")
    if kind == "name":
        return _name(str(value))
    if isinstance(value, list):
        return _ranks(value)
    if isinstance(value, bool):
        return Cell("yes" if value else "no", "1" if value else "0")
    if isinstance(value, str):
        return Cell(value, value)
    return Cell(_number(value, kind, scale), repr(value))


def _number(value: int | float, kind: Kind, scale: words.Scale | None) -> str:
    if scale is not None:
        return scale.text(value)
    if kind == "percent":
        return words.percent(value).removesuffix("%")
    if kind == "count":
        return words.count(int(value))
    return _WRITERS[kind](value, words.TABLE) if kind in _WRITERS else str(value)


def _ranks(ranks: list[int]) -> Cell:
    text, whole = words.folded(ranks), words.folded(ranks, most=len(ranks))
    return Cell(text, str(len(ranks)), whole if whole != text else "")


def _name(text: str) -> Cell:
    short = words.shortened(text, _LONG_NAME)
    return Cell(short, text, text if short != text else "")
