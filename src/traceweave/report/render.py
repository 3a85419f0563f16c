"""From a database to one HTML page that loads nothing and runs only the scripts it carries."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import duckdb
import jinja2
from markupsafe import Markup

from traceweave._version import __version__
from traceweave.outputs import write_whole
from traceweave.report.cards import cards
from traceweave.report.header import Fact, facts, run_name
from traceweave.report.page import RUN, Section
from traceweave.report.sections.bandwidth import bandwidth_section, load_bandwidth
from traceweave.report.sections.budget import load_budget
from traceweave.report.sections.budget_layout import budget_section
from traceweave.report.sections.clocks import clocks_section, load_clocks
from traceweave.report.sections.collectives import collectives_section, load_collectives
from traceweave.report.sections.findings import findings_section, load_findings
from traceweave.report.sections.gaps import gaps_section, load_gaps
from traceweave.report.sections.inputs import inputs_section, load_inputs
from traceweave.report.sections.kernels import kernels_section, load_kernels
from traceweave.report.sections.memory import load_memory, memory_section
from traceweave.report.sections.overlap import load_overlap, overlap_section
from traceweave.report.sections.timeline import load_timeline, timeline_section
from traceweave.report.sections.worth import load_worth, worth_section
from traceweave.report.verdict import Verdict, judge
from traceweave.targets import FileKind, check_target

DEFAULT_TITLE = "Training run report"

_SCRIPTS = (
    "vendor/echarts.min.js",
    "charts.js",
    "charts-xy.js",
    "charts-compare.js",
    "timeline-view.js",
    "timeline-drawing.js",
    "timeline-controls.js",
    "timeline.js",
    "page.js",
)
_STYLES = ("colours.css", "page.css")
# every character that could end the element, open another or break a script's line
_JSON_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


@dataclass(frozen=True)
class Report:
    """All that the page shows, as plain values."""

    title: str
    verdict: Verdict
    sections: tuple[Section, ...]
    facts: tuple[Fact, ...] = ()


def _say_nothing(stage: str) -> None:
    pass


def write_report(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    title: str | None = None,
    say: Callable[[str], None] = _say_nothing,
    run: str = RUN,
) -> None:
    """Write the report on the run in `con` to `path`; the same database gives the same bytes.

    Without a `title` it has the name of the folder that the input files are in. `say` is told what
    is being done; commands on the page name the `run`. Raises InputError if the file cannot be
    written.
    """
    check_target(path, FileKind.PAGE)
    report = build_report(con, title, say, run)
    say("writing the page")
    write_whole(path, render_report(report).encode(), FileKind.PAGE)


def build_report(
    con: duckdb.DuckDBPyConnection,
    title: str | None = None,
    say: Callable[[str], None] = _say_nothing,
    run: str = RUN,
) -> Report:
    """Read everything that the page shows; `say` is told of what takes long."""
    say("summing up the time of ranks and steps")
    inputs, budget = load_inputs(con), load_budget(con)
    say("finding why GPUs were idle")
    gaps = load_gaps(con, budget)
    say("reading the collectives")
    collectives, clocks = load_collectives(con), load_clocks(con)
    say("drawing the timeline and the critical path")
    timeline = load_timeline(con, budget, collectives, gaps.relation)
    say("finding why communication is exposed")
    overlap = load_overlap(con, timeline.steps[0]["step"] if timeline.steps else None)
    say("looking for findings")
    findings = load_findings(con)
    cpu = inputs.is_cpu_run
    sections = (
        worth_section(load_worth(con), findings),
        budget_section(budget, cpu),
        timeline_section(timeline, len(budget.ranks)),
        overlap_section(budget, overlap),
        gaps_section(gaps),
        collectives_section(collectives, len(inputs.ranks)),
        bandwidth_section(load_bandwidth(con, collectives.groups), len(inputs.ranks)),
        kernels_section(load_kernels(con), cpu),
        memory_section(load_memory(con)),
        clocks_section(clocks),
        inputs_section(inputs),
    )
    gpus = len(budget.ranks) if budget.has_steps and not cpu else 0
    named = shlex.quote(run)
    told = cards(findings, sections, timeline, named, gpus)
    return Report(
        title=title or run_name(inputs) or DEFAULT_TITLE,
        verdict=judge(inputs, budget, findings, clocks, told),
        sections=tuple(
            section.of(named) for section in (findings_section(findings, told), *sections)
        ),
        facts=facts(inputs, budget, findings),
    )


def render_report(report: Report) -> str:
    """Return the page as text."""
    scripts = [_asset(name) for name in _SCRIPTS]
    charts = {figure.name: figure.chart for s in report.sections for figure in s.figures}
    return (
        _templates()
        .get_template("report.html")
        .render(
            report=report,
            version=__version__,
            policy=_policy(scripts),
            scripts=[Markup(script) for script in scripts],
            styles=[Markup(_asset(name)) for name in _STYLES],
            charts=Markup(_json(charts)),
        )
    )


def _policy(scripts: list[str]) -> str:
    """Return the Content-Security-Policy that allows these scripts and inline styles only."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )


def _json(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_JSON_ESCAPES)


def _asset(name: str) -> str:
    folder = resources.files(__package__).joinpath("assets")
    return folder.joinpath(name).read_text(encoding="utf-8")


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("traceweave.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
