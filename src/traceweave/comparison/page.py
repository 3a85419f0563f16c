"""The comparison as one self-contained HTML page, in the dress of the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceweave.comparison.budget import StepTime
from traceweave.comparison.comparability import WITH_CARE, Comparability
from traceweave.comparison.figures import change_figure, step_figure, waterfall_figure
from traceweave.comparison.sentences import method, samples, sentences
from traceweave.comparison.side import Side, unit_of
from traceweave.comparison.tables import TABLES, meaning_of
from traceweave.outputs import write_whole
from traceweave.report.columns import in_words
from traceweave.report.page import Column, Figure, Kind, Origin, Section, Table
from traceweave.report.render import Report, render_report
from traceweave.report.verdict import Sentence, Verdict
from traceweave.targets import FileKind
from traceweave.words import kind, plural

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 200
"""Rows of a table on the page; the command prints all of them."""

_KINDS: dict[str, tuple[str, Kind]] = {
    "relative": ("Change", "percent"),
    "base_share": ("Base share", "percent"),
    "new_share": ("New share", "percent"),
    "item": ("Name", "name"),
    "shape": ("Shape", "name"),
    "difference_share": ("Difference", "percent"),
    "change": ("Verdict", "text"),
    "hedges_g": ("Effect size g", "number"),
    "slower_share": ("Pairs slower", "percent"),
    "base_steps": ("Base steps", "int"),
    "new_steps": ("New steps", "int"),
    "base_calls": ("Base calls", "number"),
    "new_calls": ("New calls", "number"),
    "rank": ("Rank", "int"),
    "limits": ("What it means", "text"),
}
"""Headings and kinds of columns whose name does not say them."""

_SMALL = frozenset(
    {"difference_ns", "low_ns", "high_ns", "shift_low_ns", "shift_high_ns", "rank_difference_ns"}
    | {"from_calls_ns", "from_duration_ns"}
)
"""Changes, which would vanish with the decimals of what changed."""

_P_VALUES = frozenset({"p", "p_adjusted", "welch_p", "mann_whitney_p"})
"""Columns that no reader compares: a footnote says what they are, and the command prints them."""

_LEFT_OUT = {"comparability": frozenset({"difference"})}
"""Columns of other tables that the page leaves out: there, what the two columns beside it say."""

_CORRECTED = (
    "A verdict rests on Welch's t-test, the p-values of the table corrected together;"
    " the command below prints them."
)
_FOOTNOTES = {
    "budget": _CORRECTED,
    "overlap": "A verdict rests on Welch's t-test; the command below prints the p-values.",
    "classes": _CORRECTED,
    "kernels": _CORRECTED,
    "ops": _CORRECTED,
    "collectives": _CORRECTED,
}

_TITLES = {
    "step": "Step time",
    "budget": "Time budget",
    "classes": "Kernel classes",
    "ops": "Operators and ranges of the host",
}
"""Headings of sections that are not the table's name."""

_ABSENT = {
    "overlap": "Neither run recorded communication.",
    "classes": "Neither run recorded kernels on a GPU.",
    "kernels": "Neither run recorded kernels on a GPU.",
    "ops": "Neither run recorded operators or ranges of the host.",
    "collectives": "Neither run recorded collectives.",
    "stragglers": "In neither run were collectives matched between ranks.",
    "memory": "Neither run recorded memory events: profile_memory=True of the PyTorch profiler or"
    " --cuda-memory-usage=true of nsys record them.",
}
"""Why a section is empty."""

_LEADS = {
    "comparability": "What is known of both runs, and what it means where they differ. With one"
    " “not comparable”, differences below cannot be read as the effect of a change.",
    "step": "How long a step takes in either run, and whether the difference is more than chance.",
    "budget": "Where the difference went. Every moment of a step is one of these parts, so they add"
    " up to the whole.",
    "overlap": "Communication that runs while the rank computes costs nothing.",
    "classes": "GPU time by class of kernel, over all streams.",
    "kernels": "GPU time by kernel and launch grid. A difference comes from the number of calls or"
    " from the time of each.",
    "ops": "Operators and ranges by their own time on the host, without what is inside them.",
    "collectives": "Collectives by operation and size; “waiting” is the part before the last rank"
    " had joined.",
    "stragglers": "How long ranks waited because of each, as far as the clocks tell who came when,"
    " summed over the waiting ranks: to arrive 1 ms after 7 others is 7 ms. Waiting for a rank that"
    " another had held up is charged to that one. Causes are those of what it did while others"
    " waited.",
    "memory": "Memory at the peak.",
}


def write_page(
    path: Path,
    comparability: Comparability,
    base: Side,
    new: Side,
    time: StepTime,
    tables: dict[str, pa.Table],
    title: str | None = None,
) -> None:
    """Write the page of a comparison; the same databases give the same bytes.

    `title` is its heading; without it, the names of both runs are.

    Raises InputError if the file cannot be written.
    """
    heading = title or f"{new.name} beside {base.name}"
    report = _build(heading, comparability, base, new, time, tables)
    write_whole(path, render_report(report).encode(), FileKind.PAGE)


def _build(
    heading: str,
    comparability: Comparability,
    base: Side,
    new: Side,
    time: StepTime,
    tables: dict[str, pa.Table],
) -> Report:
    """All that the page shows."""
    words = sentences(base, new, time, tables, alike=not comparability.reasons)
    care = "comparable " if comparability.verdict == WITH_CARE else ""
    first = [Sentence(text, "comparability") for text in comparability.sentences]
    if comparability.reasons:
        title = f"Not comparable: {comparability.against}"
    else:
        title, words = words[0], words[1:]
    verdict = Verdict(
        headline=title.rstrip("."),
        subject=f"{new.name} compared with {base.name}: {care}{comparability.verdict}",
        sentences=(*first, *(Sentence(text, "step") for text in words)),
        figures=(),
        parts=(),
    )
    unit = unit_of(base, new)
    notes = {"step": samples(base, new)}
    footnotes = _FOOTNOTES | {"step": " ".join(method(time))}
    sections = tuple(
        _section(
            name,
            _title(name, unit),
            tables[name],
            _figures(name, tables[name].to_pylist(), base, new),
            notes.get(name, ()),
            footnotes.get(name, ""),
        )
        for name in TABLES
    )
    return Report(heading, verdict, sections)


def _section(
    name: str,
    title: str,
    found: pa.Table,
    figures: tuple[Figure, ...],
    notes: tuple[str, ...],
    footnote: str,
) -> Section:
    rows = found.to_pylist()
    names = [key for key in found.schema.names if key not in _LEFT_OUT.get(name, _P_VALUES)]
    columns = tuple(_column(key) for key in names)
    cells = tuple(tuple(row[key] for key in names) for row in rows[:MOST_ROWS])
    more = len(rows) - MOST_ROWS
    left_out = (
        f"{plural(more, 'more row')} left out, with the smallest changes." if more > 0 else ""
    )
    table = Table(
        name,
        title,
        columns,
        cells,
        note=" ".join(text for text in (left_out, footnote) if text),
    )
    command = f"traceweave compare base.duckdb new.duckdb --table {name} --format csv"
    return Section(
        anchor=name,
        title=_TITLES.get(name, name.capitalize()),
        lead=_LEADS[name],
        notes=notes,
        figures=figures,
        tables=(table,),
        origins=(Origin(title, command),),
        empty="" if rows else _ABSENT.get(name, "Neither trace says anything about it."),
    )


def _title(name: str, unit: str) -> str:
    meaning = meaning_of(name, unit)
    return meaning[0].upper() + meaning[1:]


def _column(name: str) -> Column:
    if name in _KINDS:
        return Column(*_KINDS[name])
    heading = in_words(name)
    match kind(name):
        case "duration":
            return Column(heading, "duration", own_decimals=name in _SMALL)
        case "bytes":
            return Column(heading, "bytes", shared_unit=True)
    return Column(heading)


def _figures(name: str, rows: list[dict[str, Any]], base: Side, new: Side) -> tuple[Figure, ...]:
    """Draw the tables where a picture helps."""
    if name == "step":
        return (step_figure(base, new),)
    if name == "budget":
        return (waterfall_figure(rows),)
    if name in ("classes", "kernels"):
        unit = unit_of(base, new)
        return change_figure(name, _title(name, unit), rows, unit)
    return ()
