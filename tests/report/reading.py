"""A second reader of report pages: the numbers of their tables and charts, and what they say."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

Row = dict[str, str]


@dataclass
class Page:
    tables: dict[str, list[Row]] = field(default_factory=dict)
    """Rows by their table's name: header (with its group, 'Transfer: Median') to exact value."""
    charts: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    """Everything outside of tables and scripts, with single blanks."""


def read(path: Path) -> Page:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    return Page(reader.tables, json.loads(reader.scripts["charts"]), " ".join(reader.words))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[Row]] = {}
        self.scripts: dict[str, str] = {}
        self.words: list[str] = []
        self._raw: str | None = None
        self._table: list[Row] | None = None
        self._groups: list[str] = []
        self._heads: list[str] = []
        self._cells: list[str] = []
        self._cell: list[str] | None = None
        self._sort: str | None = None
        self._span = 0
        self._apart = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "style"):
            self._raw = given.get("id") or ""
        elif tag == "table":
            self._table = self.tables.setdefault(str(given["id"]).removeprefix("table-"), [])
            self._groups, self._heads = [], []
        elif tag in ("td", "th") and self._table is not None:
            self._cell, self._sort = [], given.get("data-sort")
            self._span = int(given.get("colspan") or 0)
        elif tag in ("summary", "span"):
            self._apart = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._raw = None
        elif tag in ("summary", "span"):
            self._apart = False
        elif tag in ("td", "th") and self._cell is not None:
            text = "".join(self._cell).strip()
            if self._span:
                self._groups += [text] * self._span
            elif tag == "th":
                group = self._groups[len(self._heads)] if self._groups else ""
                self._heads.append(f"{group}: {text}" if group else text)
            else:
                self._cells.append(text if self._sort is None else self._sort)
            self._cell = None
        elif tag == "tr" and self._cells and self._table is not None:
            self._table.append(dict(zip(self._heads, self._cells, strict=True)))
            self._cells = []
        elif tag == "table":
            self._table = None

    def handle_data(self, data: str) -> None:
        if self._raw is not None:
            self.scripts[self._raw] = data
        elif self._cell is not None:
            # not a unit, nor the short form of a name
            if not self._apart:
                self._cell.append(data)
        elif self._table is None:
            self.words += data.split()
