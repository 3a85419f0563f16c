"""How well the ranks' clocks agree: offsets, proven bounds, residuals, and broken causality."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import duckdb

from traceweave.report.columns import rows_table
from traceweave.report.page import Column, Figure, Origin, Section, Table, bars
from traceweave.report.query import Row, analysis_rows
from traceweave.report.sections.matching import (
    MATCHING,
    Matching,
    causality_in_words,
    load_matching,
)
from traceweave.report.selection import Selection, select_ranks
from traceweave.words import count, duration, name_ranks, plural

_COMMAND = "traceweave analyze clock_quality run.duckdb"


@dataclass(frozen=True)
class Clocks:
    """Rows of the analysis clock_quality, and what was matched."""

    rows: list[Row]
    matching: Matching

    @property
    def unproven_ranks(self) -> list[int]:
        """Ranks whose clock rests on no collective: comparing them with others is a guess."""
        return sorted({r["rank"] for r in self.rows if r["status"] in ("wall clock", "unaligned")})

    @property
    def unknown_ranks(self) -> list[int]:
        """Ranks of whose clock it is not known how well it agrees with the others."""
        return sorted({r["rank"] for r in self.rows if r["residual_p95_ns"] is None})

    @property
    def resolution_ns(self) -> int | None:
        """Largest residual_p95_ns: smaller differences between ranks are noise.

        None if that of any rank is not known.
        """
        if self.unknown_ranks:
            return None
        return max((r["residual_p95_ns"] for r in self.rows), default=None)


def load_clocks(con: duckdb.DuckDBPyConnection) -> Clocks:
    """Read the clock fits, and whether causality holds on the aligned times."""
    return Clocks(analysis_rows(con, "clock_quality"), load_matching(con))


def clocks_in_words(clocks: Clocks) -> str:
    """Say in one or two sentences how far times of different ranks can be compared."""
    ranks = {r["rank"] for r in clocks.rows}
    if len(ranks) < 2:
        return ""
    said = []
    if clocks.resolution_ns is not None:
        how_well = f"to {duration(clocks.resolution_ns)}" if clocks.resolution_ns else "exactly"
        said.append(
            f"After alignment the ranks' clocks agree {how_well}"
            " (largest 95th percentile of the residuals); smaller differences between ranks are"
            " treated as noise"
        )
    if clocks.unproven_ranks:
        who = name_ranks(clocks.unproven_ranks)
        clock = "clock" if len(clocks.unproven_ranks) == 1 else "clocks"
        said.append(f"the {clock} of {who} could not be checked against the other ranks")
    elif clocks.unknown_ranks:
        said.append(
            f"how exactly clocks agree is not known: no collective tells for"
            f" {name_ranks(clocks.unknown_ranks)}"
        )
    matching = clocks.matching
    if matching.violations:
        said.append(
            f"{count(matching.violations)} of {plural(matching.synchronizing, 'collective')} break"
            f" causality by up to {duration(matching.violation_max_ns)}, so the fit is not good"
            " enough there"
        )
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}." if said else ""


def clocks_section(clocks: Clocks) -> Section:
    """Lay out charts and table of the clock fits."""
    notes = (
        clocks_in_words(clocks),
        causality_in_words(clocks.matching),
        _several(clocks),
    )
    return Section(
        anchor="clocks",
        title="Clock quality",
        lead=(
            "Each rank writes times of its own clock. Collectives, which cannot end anywhere"
            " before the last rank has joined, tell how far the clocks are apart."
        ),
        notes=tuple(note for note in notes if note),
        figures=_figures(clocks),
        tables=(_table(clocks),),
        origins=(
            Origin("Clocks", _COMMAND),
            MATCHING,
        ),
        empty="" if clocks.rows else "No clock was fitted: no ranks to compare.",
        terms={
            "Offset": "what is added to the rank's clock to get the common one",
            "Proven bound": "the offset cannot be wrong by more than this, or a collective would"
            " have ended before it began",
            "Residual": "distance of a collective's end on this rank from where the fit puts it",
        },
    )


def _several(clocks: Clocks) -> str:
    """Say of which ranks the charts, with one bar each, do not show all that the table has."""
    rows = Counter(row["rank"] for row in clocks.rows)
    ranks = sorted(rank for rank, many in rows.items() if many > 1)
    whose = name_ranks(ranks)
    return (
        f"Clocks that change: charts show the first row of {whose}, the table all." if ranks else ""
    )


def _figures(clocks: Clocks) -> tuple[Figure, ...]:
    first: dict[int, Row] = {}
    for row in clocks.rows:
        first.setdefault(row["rank"], row)
    if len(first) < 2:
        return ()
    shown = _shown(list(first.values()))
    rows = shown.rows
    categories = [str(r["rank"]) for r in rows]
    offsets = bars(categories, ("Offset", "offset", [r["offset_ns"] for r in rows]), axis="Rank")
    quality = bars(
        categories,
        ("Proven bound (±)", "bound", [r["bound_ns"] for r in rows]),
        ("Residual, 95th percentile", "p95", [r["residual_p95_ns"] for r in rows]),
        ("Residual, median", "p50", [r["residual_p50_ns"] for r in rows]),
        axis="Rank",
    )
    table = "The table “Clock of each rank” holds the numbers."
    return (
        Figure(
            "clock-quality",
            "How well each clock is known",
            shown.told("time"),
            f"Bar chart per rank: proven bound of the offset and residuals of the fit. {table}",
            quality,
            height=280,
        ),
        Figure(
            "clock-offsets",
            "Offset of each clock",
            shown.told("time"),
            f"Bar chart per rank: offset added to the rank's clock. {table}",
            offsets,
            height=240,
        ),
    )


def _shown(rows: list[Row]) -> Selection:
    return select_ranks(rows, lambda row: row["residual_p95_ns"])


def _table(clocks: Clocks) -> Table:
    shown = _shown(clocks.rows)
    return rows_table(
        "clocks",
        "Clock of each rank",
        "clock_quality",
        {
            "rank": "",
            "status": "",
            "offset_ns": Column("", own_unit=True),
            "bound_ns": "Proven bound (±)",
            "residual_p50_ns": "",
            "residual_p95_ns": "",
            "drift_ppm": "Drift (ppm)",
            "anchors": "",
            "method": "",
        },
        shown.rows,
        note=shown.note("residual (95th percentile)", _COMMAND),
    )
