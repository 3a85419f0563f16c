"""How much of the communication hides behind compute, per rank."""

from __future__ import annotations

from traceweave.report.page import Column, Figure, Origin, Section, Table
from traceweave.report.sections.budget import BREAKDOWN_COMMAND, Budget, part_column
from traceweave.report.selection import Selection, select_ranks

_EXPOSED = "Communication while no compute runs"


def overlap_section(budget: Budget) -> Section:
    """Lay out how much of the communication hides behind compute."""
    ranks = [r for r in budget.per_rank if r["comm_ns"]]
    hidden = any(r["overlap_ns"] for r in ranks)
    shown = select_ranks(ranks, lambda r: r["exposed_comm_ns"] / r["windows"])
    rows = shown.rows
    return Section(
        anchor="overlap",
        title="Overlap of communication and compute",
        lead=(
            "Communication that runs while the rank computes is hidden and costs little. What"
            " does not hide this way lengthens the step."
        ),
        notes=("No rank hides any of its communication.",) if rows and not hidden else (),
        figures=(_overlap_figure(shown),) if hidden else (),
        tables=(_overlap_table(shown, budget),) if rows else (),
        origins=(Origin("Time budget and overlap, per rank and step", BREAKDOWN_COMMAND),),
        empty="" if rows else "No communication was recorded inside the windows measured.",
        terms={
            "Hidden": "share of the communication time during which compute runs too",
            "Overlap efficiency": "time saved by overlapping, as a share of what could be saved"
            " at best: 100% if the shorter of the two hides completely",
        },
    )


def _overlap_figure(shown: Selection) -> Figure:
    rows = shown.rows
    return Figure(
        "overlap",
        "Overlap per rank",
        shown.told("%"),
        "Bar chart per rank: share of communication hidden behind compute, and overlap"
        " efficiency. The table “Overlap per rank” holds the numbers.",
        {
            "kind": "bars",
            "axis": "Rank",
            "categories": [str(r["rank"]) for r in rows],
            "measure": "fraction",
            "series": [
                {"label": "Communication hidden", "role": "hidden"},
                {"label": "Overlap efficiency", "role": "efficiency"},
            ],
            "variants": [
                {
                    "label": "",
                    "values": [[_round(r[k]) for r in rows] for k in ("hidden", "efficiency")],
                }
            ],
        },
        height=280,
    )


def _round(fraction: float | None) -> float | None:
    return None if fraction is None else round(fraction, 5)


def _overlap_table(shown: Selection, budget: Budget) -> Table:
    per = "step" if budget.has_steps else "recording"
    keys = ("comm_ns", "overlap_ns", *(part.key for part in budget.exposed_parts))
    return Table(
        "overlap",
        "Overlap per rank",
        (
            Column("Rank", "int"),
            Column("Communication", "duration", note=f"Mean per {per}"),
            Column("Hidden", "duration", note="Communication while compute runs"),
            *(part_column(part, _EXPOSED) for part in budget.exposed_parts),
            Column("Communication hidden", "percent"),
            Column("Overlap efficiency", "percent"),
        ),
        tuple(
            (
                r["rank"],
                *(round(r[key] / r["windows"]) for key in keys),
                r["hidden"],
                r["efficiency"],
            )
            for r in shown.rows
        ),
        note=shown.note("exposed communication", BREAKDOWN_COMMAND),
    )
