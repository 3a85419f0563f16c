"""How well the ranks' clocks agree: offsets, proven bounds, residuals, and broken causality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from traceweave.report.page import Column, Figure, Origin, Section, Table
from traceweave.report.query import Row, query_rows, query_text
from traceweave.report.selection import Selection, select_ranks
from traceweave.words import count, duration, name_ranks, plural


@dataclass(frozen=True)
class Clocks:
    """Rows of query clocks, and the one row of query causality."""

    rows: list[Row]
    causality: Row

    @property
    def unproven_ranks(self) -> list[int]:
        """Ranks whose clock rests on no collective: comparing them with others is a guess."""
        return sorted({r["rank"] for r in self.rows if r["status"] in ("wall clock", "unaligned")})

    @property
    def resolution_ns(self) -> int | None:
        """Largest residual_p95_ns: smaller differences between ranks are noise; None if unknown."""
        known = [r["residual_p95_ns"] for r in self.rows if r["residual_p95_ns"] is not None]
        return max(known) if known else None


def load_clocks(con: duckdb.DuckDBPyConnection) -> Clocks:
    """Read the clock fits and check causality on the aligned times."""
    return Clocks(query_rows(con, "clocks"), query_rows(con, "causality")[0])


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
    violated, checked = clocks.causality["violated"], clocks.causality["checked"]
    if violated:
        said.append(
            f"{count(violated)} of {plural(checked, 'collective')} break causality by up to"
            f" {duration(clocks.causality['worst_ns'])}, so the fit is not good enough there"
        )
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}." if said else ""


def clocks_section(clocks: Clocks) -> Section:
    """Lay out charts and table of the clock fits."""
    violated, checked = clocks.causality["violated"], clocks.causality["checked"]
    causality = f"Causality holds in all {plural(checked, 'collective')} that synchronize."
    if violated:
        causality = (
            f"{count(violated)} of {plural(checked, 'collective')} that synchronize end on one rank"
            " before they start on another, which cannot be: by up to"
            f" {duration(clocks.causality['worst_ns'])}."
        )
    notes = [clocks_in_words(clocks)] if clocks_in_words(clocks) else []
    return Section(
        anchor="clocks",
        title="Clock quality",
        lead=(
            "Each rank writes times of its own clock. Collectives, which cannot end anywhere"
            " before the last rank has joined, tell how far the clocks are apart."
        ),
        notes=tuple([*notes, causality] if checked else notes),
        figures=_figures(clocks),
        tables=(_table(clocks),),
        origins=(
            Origin("Clocks", query_text("clocks")),
            Origin("Causality", query_text("causality")),
        ),
        empty="" if clocks.rows else "No clock was fitted: there are no ranks to compare.",
        terms={
            "Offset": "what is added to the rank's clock to get the common one",
            "Proven bound": "the offset cannot be wrong by more than this, or a collective would"
            " have ended before it began",
            "Residual": "distance of a collective's end on this rank from where the fit puts it",
        },
    )


def _figures(clocks: Clocks) -> tuple[Figure, ...]:
    first: dict[int, Row] = {}
    for row in clocks.rows:
        first.setdefault(row["rank"], row)
    if len(first) < 2:
        return ()
    rows = _shown(list(first.values())).rows
    categories = [str(r["rank"]) for r in rows]
    offsets = _bars(categories, [("Offset", "offset", [r["offset_ns"] for r in rows])])
    quality = _bars(
        categories,
        [
            ("Proven bound (±)", "bound", [r["bound_ns"] for r in rows]),
            ("Residual, 95th percentile", "p95", [r["residual_p95_ns"] for r in rows]),
            ("Residual, median", "p50", [r["residual_p50_ns"] for r in rows]),
        ],
    )
    table = "The table “Clock of each rank” holds the numbers."
    return (
        Figure(
            "clock-quality",
            "How well each clock is known",
            "time",
            f"Bar chart per rank: proven bound of the offset and residuals of the fit. {table}",
            quality,
            height=280,
        ),
        Figure(
            "clock-offsets",
            "Offset of each clock",
            "time",
            f"Bar chart per rank: offset added to the rank's clock. {table}",
            offsets,
            height=240,
        ),
    )


def _bars(categories: list[str], series: list[tuple[str, str, list[Any]]]) -> dict[str, Any]:
    return {
        "kind": "bars",
        "axis": "Rank",
        "categories": categories,
        "measure": "duration",
        "series": [{"label": label, "role": role} for label, role, _ in series],
        "variants": [{"label": "", "values": [values for _, _, values in series]}],
    }


def _shown(rows: list[Row]) -> Selection:
    return select_ranks(rows, lambda row: row["residual_p95_ns"])


def _table(clocks: Clocks) -> Table:
    shown = _shown(clocks.rows)
    fit = ("offset_ns", "bound_ns", "residual_p50_ns", "residual_p95_ns", "drift_ppm")
    keys = ("rank", "status", *fit, "anchors", "method")
    return Table(
        name="clocks",
        caption="Clock of each rank",
        columns=(
            Column("Rank", "int"),
            Column("Status"),
            Column("Offset", "duration", own_unit=True),
            Column("Proven bound (±)", "duration"),
            Column("Residual p50", "duration"),
            Column("Residual p95", "duration"),
            Column("Drift (ppm)", "number", note="Rate difference, parts per million"),
            Column("Anchors", "count", note="Matched collectives the fit rests on"),
            Column("Method", "name"),
        ),
        rows=tuple(tuple(r[key] for key in keys) for r in shown.rows),
        note=shown.note("residual (95th percentile)", "SELECT * FROM clocks"),
    )
