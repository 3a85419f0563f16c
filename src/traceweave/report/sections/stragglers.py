"""Which ranks hold the others up, and what they did longer on their way to a collective."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from traceweave.analyses import LATE, cause_words
from traceweave.report.columns import rows_table
from traceweave.report.page import Column, Origin, Section, Table
from traceweave.report.query import Row, analysis_rows
from traceweave.words import count, duration, percent, plural

MOST_ROWS = 32
"""Ranks in the table."""

_COMMAND = "traceweave analyze stragglers run.duckdb"


@dataclass(frozen=True)
class Stragglers:
    """Rows of the analysis `stragglers`, the rank that was waited for longest first."""

    rows: list[Row]
    meaning: dict[str, str]
    """What each cause is, in words."""

    @property
    def waited_ns(self) -> int:
        """All waiting, where the clocks can tell that ranks waited."""
        return sum(row["waited_ns"] for row in self.rows)


def load_stragglers(con: duckdb.DuckDBPyConnection) -> Stragglers:
    """Read who was last, how often, for how long and why."""
    rows = analysis_rows(con, "stragglers")
    return Stragglers(rows, cause_words(con, LATE))


def stragglers_in_words(stragglers: Stragglers) -> str:
    """Say in a sentence or two who is waited for most, and why."""
    if not stragglers.rows:
        return ""
    first = stragglers.rows[0]
    if not first["origin_wait_ns"]:
        return "No rank is late by more than the clock resolution."
    text = (
        f"Most waiting is for rank {first['rank']}: {duration(first['origin_wait_ns'])} over all"
        f" ranks and steps, {percent(first['origin_wait_ns'] / stragglers.waited_ns)} of all"
        " waiting."
    )
    if first["cause"] is None:
        return f"{text} Why is not known{': ' + first['note'] if first['note'] else ''}."
    detail = f" ({first['cause_detail']})" if first["cause_detail"] else ""
    return f"{text} On its way {stragglers.meaning[first['cause']]}{detail}."


def stragglers_section(stragglers: Stragglers, ranks: int) -> Section:
    """Lay out the ranks that the others wait for; `ranks`: of the whole run."""
    found = bool(stragglers.rows)
    reason = (
        "there is one rank only"
        if ranks < 2
        else "no collective was matched in which one rank could wait for another"
    )
    return Section(
        anchor="stragglers",
        title="Stragglers",
        lead=(
            "A straggler arrives last, and the others wait for it: what they wait is summed over"
            " them, and over the ranks it is all waiting in steps that count."
        ),
        notes=(stragglers_in_words(stragglers),) if found else (),
        tables=(_table(stragglers),) if found else (),
        origins=(Origin("Stragglers", _COMMAND),),
        empty="" if found else f"Nobody can be called late: {reason}.",
        terms={
            cause: f"on its way to the collectives {stragglers.meaning[cause]}"
            for cause in dict.fromkeys(row["cause"] for row in stragglers.rows[:MOST_ROWS])
            if cause is not None
        },
    )


def _table(stragglers: Stragglers) -> Table:
    rows = [row for row in stragglers.rows if row["known_last"]]
    return rows_table(
        "stragglers",
        "Who is waited for, and why",
        "stragglers",
        {
            "rank": "",
            "known_last": Column("Times", group="Came last"),
            "known_last_share": Column("Share", "percent", "Of these", group="Came last"),
            "origin_wait_ns": "Waiting for it",
            "delay_max_ns": Column("Longest delay", own_unit=True),
            "cause": "",
            "cause_detail": "Namely",
            "cause_share": "Share",
            "worst_share": "Worst in steps",
            "shortest_share": "Late without clocks",
            "host": "",
        },
        map(with_known_share, rows[:MOST_ROWS]),
        note=_note(stragglers, len(rows)),
    )


def with_known_share(row: Row) -> Row:
    """Return a row with the share of the collectives in which the clocks resolve who came last."""
    known = row["known_instances"]
    return {**row, "known_last_share": row["known_last"] / known if known else None}


def _note(stragglers: Stragglers, late: int) -> str:
    ranks = len(stragglers.rows)
    if late == ranks <= MOST_ROWS:
        return ""
    more = f"; shown are {MOST_ROWS} that most is waited for" if late > MOST_ROWS else ""
    return (
        f"Of {plural(ranks, 'rank')}, {count(late)} came last at least once where the clocks"
        f" resolve it{more}. All of them: {_COMMAND}"
    )
