"""Asking the vocabulary as the loaders do, and lists of labelled names."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceweave.sources.classify import classify


@dataclass(frozen=True)
class Label:
    """What a reader says of a kernel's name."""

    name: str
    class_: str
    also: frozenset[str]
    """Other classes that a reader would accept."""
    category: str
    sure: bool
    """Whether the name leaves no room."""

    def accepts(self, class_: str) -> bool:
        return class_ == self.class_ or class_ in self.also


def read_labels(path: Path) -> list[Label]:
    """Return the rows of a file of labels."""
    lines = path.read_text(encoding="utf-8").splitlines()
    _, *rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [
        Label(name, class_, frozenset(filter(None, also.split(","))), category, sure == "yes")
        for name, class_, also, category, sure, *_ in rows
    ]


def classes(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return category and class of kernels by their names."""
    with duckdb.connect() as con:
        con.execute("CREATE TEMP TABLE new_gpu_ops (kind VARCHAR, name VARCHAR)")
        con.execute("INSERT INTO new_gpu_ops SELECT 'kernel', unnest($1)", [list(names)])
        classify(con)
        rows = con.execute("SELECT name, category, class FROM classified").fetchall()
    return {name: (category, class_) for name, category, class_ in rows}
