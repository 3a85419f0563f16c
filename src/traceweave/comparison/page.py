"""The comparison as one self-contained HTML page, in the dress of the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceweave.comparison.budget import StepTime
from traceweave.comparison.sentences import headline, samples, sentences
from traceweave.comparison.side import Side
from traceweave.comparison.tables import TABLES
from traceweave.outputs import write_whole
from traceweave.report.page import Column, Figure, Kind, Origin, Section, Table, chart_labels
from traceweave.report.render import Report, render_report
from traceweave.report.verdict import Sentence, Verdict
from traceweave.words import plural

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 200
"""Rows of a table on the page; the command prints all of them."""

MOST_BARS = 15
"""Kernels that the chart shows."""

_KINDS: dict[str, tuple[str, Kind]] = {
    "relative": ("Change", "percent"),
    "base_share": ("Base share", "percent"),
    "new_share": ("New share", "percent"),
    "p_adjusted": ("p, corrected", "number"),
    "welch_p": ("Welch p", "number"),
    "mann_whitney_p": ("Mann-Whitney p", "number"),
    "p": ("p", "number"),
    "item": ("Name", "name"),
    "shape": ("Shape", "name"),
    "base": ("Base", "percent"),
    "new": ("New", "percent"),
    "difference": ("Difference", "percent"),
    "change": ("Verdict", "text"),
    "hedges_g": ("Effect size g", "number"),
    "slower_share": ("Pairs slower", "percent"),
    "base_steps": ("Base steps", "int"),
    "new_steps": ("New steps", "int"),
    "base_calls": ("Base calls", "number"),
    "new_calls": ("New calls", "number"),
    "rank": ("Rank", "int"),
}
"""Headings and kinds of columns whose name does not say them."""

_SMALL = frozenset({"difference_ns", "low_ns", "high_ns", "from_calls_ns", "from_duration_ns"})
"""Changes, which would vanish in the unit of what changed."""

_TITLES = {
    "step": "Step time",
    "budget": "Time budget",
    "classes": "Kernel classes",
    "ops": "Operators",
}
"""Headings of sections that are not the table's name."""

_ABSENT = {
    "overlap": "Neither run recorded communication.",
    "classes": "Neither run recorded kernels on a GPU.",
    "kernels": "Neither run recorded kernels on a GPU.",
    "ops": "Neither run recorded operators of the host.",
    "collectives": "Neither run recorded collectives.",
    "stragglers": "In neither run were collectives matched between ranks.",
    "memory": "Neither run recorded memory events: profile_memory=True of the PyTorch profiler or"
    " --cuda-memory-usage=true of nsys record them.",
}
"""Why a section is empty."""

_LEADS = {
    "step": "How long a step takes in either run, and whether the difference is more than chance.",
    "budget": "Where the difference went. Every moment of a step is one of these parts, so they add"
    " up to the whole.",
    "overlap": "Communication that runs while the rank computes costs nothing.",
    "classes": "GPU time by sort of kernel, over all streams.",
    "kernels": "GPU time by kernel and launch grid. A difference comes from the number of calls or"
    " from the time of each.",
    "ops": "Operators by their own time on the host, without what they call.",
    "collectives": "Collectives by operation and size; “waiting” is the part before the last rank"
    " had joined.",
    "stragglers": "How long each rank made the others wait by arriving last at collectives, summed"
    " over the waiting ranks: to arrive 1 ms after 7 others is 7 ms.",
    "memory": "Memory at the peak.",
}


def write_page(
    path: Path, base: Side, new: Side, time: StepTime, tables: dict[str, pa.Table]
) -> None:
    """Write the page of a comparison; the same databases give the same bytes.

    Raises InputError if the file cannot be written.
    """
    write_whole(path, render_report(_build(base, new, time, tables)).encode())


def _build(base: Side, new: Side, time: StepTime, tables: dict[str, pa.Table]) -> Report:
    """All that the page shows."""
    words = sentences(base, new, time, tables)
    verdict = Verdict(
        headline=headline(time, base.unit).rstrip("."),
        subject=f"{new.name} compared with {base.name}",
        sentences=tuple(Sentence(text, "step") for text in words[1:]),
        figures=(),
        parts=(),
    )
    notes = {"step": samples(base, new)}
    sections = tuple(_section(name, tables[name], notes.get(name, ())) for name in TABLES)
    return Report("Comparison of two runs", verdict, sections)


def _section(name: str, found: pa.Table, notes: tuple[str, ...]) -> Section:
    rows = found.to_pylist()
    names = found.schema.names
    columns = tuple(_column(key) for key in names)
    cells = tuple(tuple(row[key] for key in names) for row in rows[:MOST_ROWS])
    more = len(rows) - MOST_ROWS
    table = Table(
        name,
        _title(name),
        columns,
        cells,
        note=f"{plural(more, 'more row')} left out, with the smallest changes." if more > 0 else "",
    )
    command = f"traceweave compare base.duckdb new.duckdb --table {name} --format csv"
    return Section(
        anchor=name,
        title=_TITLES.get(name, name.capitalize()),
        lead=_LEADS[name],
        notes=notes,
        figures=_figures(name, rows),
        tables=(table,),
        origins=(Origin(_title(name), command),),
        empty="" if rows else _ABSENT.get(name, "Neither trace says anything about it."),
    )


def _title(name: str) -> str:
    meaning = TABLES[name]
    return meaning[0].upper() + meaning[1:]


def _column(name: str) -> Column:
    if name in _KINDS:
        return Column(*_KINDS[name])
    if name.endswith("_ns"):
        return Column(_heading(name.removesuffix("_ns")), "duration", own_unit=name in _SMALL)
    if name.endswith("_bytes"):
        return Column(_heading(name.removesuffix("_bytes")), "bytes")
    return Column(_heading(name))


def _heading(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _figures(name: str, rows: list[dict[str, Any]]) -> tuple[Figure, ...]:
    """Draw what changed most, for the tables where a picture helps."""
    label = {"budget": "part", "classes": "item", "kernels": "item"}.get(name)
    shown = [row for row in rows[:-1] if row["difference_ns"]] if name == "budget" else rows
    shown = shown[:MOST_BARS]
    if label is None or not shown:
        return ()
    chart = {
        "kind": "bars",
        "horizontal": True,
        "axis": "",
        "categories": chart_labels(str(row[label]) for row in shown),
        "measure": "duration",
        "roles": ["caused" if row["difference_ns"] > 0 else "hidden" for row in shown],
        "series": [{"label": "Difference", "role": "caused"}],
        "variants": [{"label": "", "values": [[row["difference_ns"] for row in shown]]}],
    }
    text = f"Bar chart of differences; the table “{_title(name)}” holds the numbers."
    title = "Difference, new minus base"
    return (Figure(name, title, "per step and rank", text, chart, height=80 + 30 * len(shown)),)
