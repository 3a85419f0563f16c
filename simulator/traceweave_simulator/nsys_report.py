"""One nsys report in the making: who is in it, when its session began, how rows go in."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import numpy as np

from traceweave_simulator.config import Times
from traceweave_simulator.places import pid_of
from traceweave_simulator.run import Run

VM = 1 << 48
"""The virtual machine's part of every global id."""

SESSION_LEAD_NS = 2_500_000_000
"""The session starts this long before the run."""


class Strings:
    """The StringIds of a report."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def id(self, text: str) -> int:
        """Return the number of a string, a new one if it is new."""
        return self.ids.setdefault(text, len(self.ids) + 1)


class Report:
    """One report: the ranks in it, and when its session began on their clock."""

    def __init__(self, run: Run, ranks: list[int], payload: bool) -> None:
        self.run = run
        self.ranks = ranks
        self.payload = payload
        self.strings = Strings()
        begin = np.zeros(1, dtype=np.int64)
        # each session begins at its own moment: times of two reports do not compare as they are
        self.start_ns = int(run.local(ranks[0], begin)[0]) - SESSION_LEAD_NS - 10_000_019 * ranks[0]

    def times(self, rank: int, elapsed: Times) -> Times:
        """Return session times of true times since the run's start."""
        return self.run.local(rank, elapsed) - self.start_ns

    def process(self, rank: int) -> int:
        """Return the global process id of a rank."""
        return VM | pid_of(self.run, rank) << 24

    def thread(self, rank: int, number: int) -> int:
        """Return the global thread id of a rank's main (0) or autograd (1) thread."""
        return self.process(rank) | (pid_of(self.run, rank) + 64 * number)


def insert(con: sqlite3.Connection, table: str, columns: Mapping[str, object]) -> None:
    """Append rows given by column; a value that is no list is the same in every row."""
    varying = {name: values for name, values in columns.items() if isinstance(values, list)}
    constant = {name: value for name, value in columns.items() if not isinstance(value, list)}
    names = ", ".join(f'"{n}"' for n in (*varying, *constant))
    marks = ", ".join(["?"] * len(varying) + [_literal(v) for v in constant.values()])
    con.executemany(
        f"INSERT INTO {table} ({names}) VALUES ({marks})", zip(*varying.values(), strict=True)
    )


def _literal(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def insert_all(con: sqlite3.Connection, table: str, rows: list[dict[str, object]]) -> None:
    """Append rows that all have the same columns."""
    insert(con, table, {name: [row[name] for row in rows] for name in rows[0]})
