"""Which kernels take the GPU's time, and whether the same kernel is slower on some rank."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from traceweave.analyses import analysis_relation
from traceweave.report.columns import rows_table
from traceweave.report.page import Column, Figure, Origin, Section, Table, bars, chart_labels
from traceweave.report.query import Row, analysis_rows
from traceweave.words import percent, plural, shortened

MOST_KERNELS = 100
"""Kernels in the table."""

COMPARED = 12
"""Kernels compared rank by rank."""

_BARS = 15
_ROLES = {"compute": "compute", "communication": "exposed-comm", "memory": "exposed-memory"}
_COMMAND = "traceweave analyze kernels run.duckdb"
_TOP = "Kernels"
_CLASSES = "Kernels by class"
_RANKS = "Kernels per rank"


@dataclass(frozen=True)
class Kernels:
    """Rows of the analyses kernels, by name and by class, and kernel_ranks."""

    names: list[Row]
    classes: list[Row]
    ranks: list[Row]
    """How long each takes on each rank; what is within the traces' rounding is the same."""


def load_kernels(con: duckdb.DuckDBPyConnection) -> Kernels:
    """Read the kernels by name, by class, and how far the ranks differ in the largest."""
    relation = analysis_relation(con, "kernels")
    [(tick_ns,)] = con.execute("SELECT max(tick_ns) FROM ranks").fetchall()
    ranks = [_as_read(row, tick_ns) for row in analysis_rows(con, "kernel_ranks", kernels=COMPARED)]
    names = con.table(relation).limit(MOST_KERNELS).to_arrow_table().to_pylist()
    return Kernels(names, analysis_rows(con, "kernels", per="class"), ranks)


def _as_read(row: Row, tick_ns: int | None) -> Row:
    """Return a row of kernel_ranks whose ratio is 1 if a tick of the traces is all of it."""
    if row["ratio"] is None or not tick_ns or tick_ns == 1:
        return row
    within = abs(row["p50_ns"] - row["usual_p50_ns"]) <= tick_ns
    return {**row, "ratio": 1.0} if within else row


def kernels_in_words(kernels: Kernels) -> str:
    """Say in a sentence or two which kernels take most time, and which differs most by rank."""
    if not kernels.classes:
        return ""
    first, most = kernels.classes[0], kernels.names[0]
    text = (
        f"Of the time of all kernels, {percent(first['share'])} goes into the class"
        f" {first['kernel']}; the kernel that takes most is {shortened(most['kernel'])} with"
        f" {percent(most['share'])}."
    )
    known = [row for row in kernels.ranks if row["ratio"] is not None]
    if not known:
        return text
    far = max(known, key=lambda row: (row["ratio"], -row["rank"]))
    if far["ratio"] < 1.05:
        return f"{text} No rank's median of a large compute kernel is 5% above the others'."
    return (
        f"{text} The rank that differs most is {far['rank']}: {shortened(far['kernel'])} takes"
        f" {percent(far['ratio'] - 1)} longer there than on the median rank."
    )


def kernels_section(kernels: Kernels, cpu: bool) -> Section:
    """Lay out kernels by class and by name, and the spread over the ranks."""
    found = bool(kernels.classes)
    reason = "no rank recorded work on a GPU" if cpu else "the traces hold no kernels"
    return Section(
        anchor="kernels",
        title="Kernels",
        lead=(
            "What the GPU runs, in steps and outside of them. Durations add up over ranks and"
            " streams, so that kernels that run at once count twice."
        ),
        notes=(kernels_in_words(kernels),) if found else (),
        figures=(_class_figure(kernels), _top_figure(kernels), *_rank_figure(kernels))
        if found
        else (),
        tables=(_top_table(kernels), _class_table(kernels)) if found else (),
        origins=(
            Origin(_TOP, _COMMAND),
            Origin(_CLASSES, f"{_COMMAND} -p per=class"),
            Origin(_RANKS, f"traceweave analyze kernel_ranks run.duckdb -p kernels={COMPARED}"),
        ),
        empty="" if found else f"No kernels to show: {reason}.",
    )


def _bars(rows: list[Row]) -> dict[str, object]:
    return bars(
        chart_labels(row["kernel"] for row in rows),
        ("Total", "compute", [row["total_ns"] for row in rows]),
        roles=[_ROLES.get(row["category"], "gap") for row in rows],
        shares=[[round(row["share"], 5) for row in rows]],
    )


def _class_figure(kernels: Kernels) -> Figure:
    rows = kernels.classes[:_BARS]
    told = ", ".join(f"{row['kernel']} {percent(row['share'])}" for row in rows)
    return Figure(
        "kernel-classes",
        "Kernel time by class",
        "total of the recording, over ranks",
        f"Bar chart: {told}. The table “Kernels by class” holds the numbers.",
        _bars(rows),
        height=72 + 30 * len(rows),
        origin=_CLASSES,
    )


def _top_figure(kernels: Kernels) -> Figure:
    rows = kernels.names[:_BARS]
    return Figure(
        "kernels",
        f"The {plural(len(rows), 'kernel')} that take most time",
        "total of the recording, over ranks",
        "Bar chart of the total time per kernel. The table “Kernels by time” holds the numbers.",
        _bars(rows),
        height=72 + 30 * len(rows),
        origin=_TOP,
    )


def _rank_figure(kernels: Kernels) -> tuple[Figure, ...]:
    """Draw rank by rank how the largest kernels compare with the median rank."""
    ranks = sorted({row["rank"] for row in kernels.ranks})
    names = list(dict.fromkeys(row["kernel"] for row in kernels.ranks))
    if len(ranks) < 2:
        return ()
    cells = {(row["kernel"], row["rank"]): row["ratio"] for row in kernels.ranks}
    values = [[_rounded(cells.get((name, rank))) for rank in ranks] for name in names]
    chart = {
        "kind": "heat",
        "measure": "ratio",
        "axis": "Rank",
        "columns": [str(rank) for rank in ranks],
        "rowAxis": "",
        "rows": chart_labels(names),
        "variants": [{"label": "Median against the median rank", "role": "", "values": values}],
    }
    return (
        Figure(
            "kernel-ranks",
            "The same kernel on every rank",
            "median on the rank / median of these over the ranks",
            f"Heat map of {plural(len(names), 'compute kernel')} by rank."
            f" {kernels_in_words(kernels)}",
            chart,
            height=130 + 26 * len(names),
            origin=_RANKS,
        ),
    )


def _top_table(kernels: Kernels) -> Table:
    fastest, slowest = "Median by rank: fastest", "Median by rank: slowest"
    return rows_table(
        "kernels",
        "Kernels by time",
        "kernels",
        {
            "kernel": "",
            "class": "",
            "count": "Number",
            "total_ns": Column("", own_unit=True),
            "share": "",
            "p50_ns": Column("p50", group="Duration"),
            "p99_ns": Column("p99", group="Duration"),
            "max_ns": Column("Longest", group="Duration"),
            "fastest_rank": Column("Rank", "int", group=fastest),
            "fastest_p50_ns": Column("p50", group=fastest),
            "slowest_rank": Column("Rank", "int", group=slowest),
            "slowest_p50_ns": Column("p50", group=slowest),
            "rank_spread": Column("Spread", "ratio"),
        },
        kernels.names,
        note=f"The {MOST_KERNELS} kernels that take most time. All of them: {_COMMAND}"
        if len(kernels.names) == MOST_KERNELS
        else "",
        origin=_TOP,
    )


def _class_table(kernels: Kernels) -> Table:
    return rows_table(
        "kernel-classes",
        "Kernels by class",
        "kernels",
        {
            "kernel": "Class",
            "names": "",
            "count": "Number",
            "total_ns": Column("", own_unit=True),
            "share": "",
            "p50_ns": "Median",
            "max_ns": "Longest",
        },
        kernels.classes,
        origin=_CLASSES,
    )


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 4)
