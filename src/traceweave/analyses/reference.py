"""What the headers of the analyses say, for readers: a page, a text, a list, a signature."""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Literal

from traceweave.analyses.catalog import TOPICS, Analysis, catalog, rules
from traceweave.analyses.parameters import Parameter
from traceweave.analyses.rules import RULE_TOPICS, Rule
from traceweave.analyses.table_macros import relations

_PYTHON_TYPES = {"VARCHAR": str, "BIGINT": int, "DOUBLE": float, "BOOLEAN": bool}


def catalog_rows() -> list[dict[str, str]]:
    """Return one row per analysis: its name, topic, question, and parameters with defaults."""
    return [
        {
            "name": analysis.name,
            "topic": analysis.topic,
            "answers": analysis.answers,
            "parameters": ", ".join(f"{p.name}={p.default}" for p in analysis.parameters),
        }
        for analysis in catalog()
    ]


def analysis_text(analysis: Analysis, written: Callable[[Parameter], str], width: int) -> str:
    """Return all that an analysis says of itself, in lines of at most `width` characters.

    `written` gives a parameter with its default as the reader would type it.
    """
    paragraphs = [f"{analysis.name}: {analysis.summary}", analysis.answers]
    if analysis.grain:
        order = f"; ordered by {analysis.order}" if analysis.order else ""
        paragraphs.append(f"Rows: {analysis.grain}{order}.")
    lines = [textwrap.fill(text, width) for text in paragraphs]
    if analysis.parameters:
        lines.append("\nParameters")
    for parameter in analysis.parameters:
        lines.append(text_item(f"{written(parameter)}  {parameter.meaning}", width))
        for choice, meaning in parameter.choices:
            lines.append(text_item(f"{choice}: {meaning}", width, indent=8))
    if analysis.columns:
        lines.append("\nColumns (names end in the unit; _ns: integer nanoseconds)")
    if analysis.text("main"):
        lines.append(text_item(f"A terminal shows {', '.join(analysis.main)}.", width))
    lines += [text_item(f"{c.name}  {c.type}: {c.meaning}", width) for c in analysis.columns]
    if analysis.caveats:
        lines.append("\nCaveats")
    lines += [text_item(caveat, width) for caveat in analysis.caveats]
    return "\n".join(lines)


def text_item(text: str, width: int, indent: int = 4) -> str:
    """Return an indented item of a list, its further lines indented once more."""
    first, rest = " " * indent, " " * (indent + 4)
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=rest)


def signature(analysis: Analysis) -> inspect.Signature:
    """Return the signature of the analysis as a Python function: parameters by name only."""
    parameters = [
        inspect.Parameter(
            parameter.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=parameter.default,
            annotation=_annotation(parameter),
        )
        for parameter in analysis.parameters
    ]
    return inspect.Signature(parameters, return_annotation="pandas.DataFrame")


def _annotation(parameter: Parameter) -> object:
    if parameter.choices:
        # a tuple stands for its items, as if they were written out
        return Literal[tuple(choice for choice, _ in parameter.choices)]
    type_ = _PYTHON_TYPES[parameter.type]
    return type_ | None if parameter.default is None else type_


def method_stubs() -> str:
    """Return methods.pyi: every analysis as a method of a run, for type checkers and completion."""
    parts = [
        '"""Every analysis as a method of a run: written by `python docs/generate.py`."""',
        "",
        "from typing import Generic, Literal, TypeVar",
        "",
        'Frame = TypeVar("Frame")',
        "",
        "class Analyses(Generic[Frame]):",
    ]
    for analysis in catalog():
        given = "".join(f"        {_stub(parameter)},\n" for parameter in analysis.parameters)
        arguments = f"\n        self,\n        *,\n{given}    " if given else "self"
        parts.append(f"    def {analysis.name}({arguments}) -> Frame:")
        parts.append(text_item(f'"""{_sentence(analysis.summary)}"""', 100, indent=8))
    return "\n".join(parts) + "\n"


def _stub(parameter: Parameter) -> str:
    if parameter.choices:
        type_ = f"Literal[{', '.join(repr(choice) for choice, _ in parameter.choices)}]"
    else:
        type_ = _PYTHON_TYPES[parameter.type].__name__
    optional = " | None" if parameter.default is None else ""
    return f"{parameter.name}: {type_}{optional} = {parameter.default!r}"


def catalog_markdown() -> str:
    """Return the page analyses.md: every analysis with its parameters and columns."""
    parts = [
        "# Analyses",
        "Each is one SQL file. Run it with `traceweave analyze <name> run.duckdb` or"
        ' `run.analyze("<name>", ...)`. All times are integer nanoseconds on the common clock;'
        " this page is generated from the headers of the files.",
    ]
    for topic in TOPICS:
        parts.append(f"## {topic.capitalize()}")
        parts.extend(_section(analysis) for analysis in catalog() if analysis.topic == topic)
    return "\n\n".join(parts) + "\n"


def findings_markdown() -> str:
    """Return the page findings.md: how to read a finding, and every rule behind them."""
    shared = _shared_thresholds()
    parts = [
        "# Findings",
        "`traceweave analyze findings run.duckdb` applies the rules below to a run and sorts what"
        " they find by cost. `traceweave analyze health run.duckdb` shows the run on one"
        " screen first. A rule is one SQL file in `src/traceweave/analyses/rules/`, and this"
        " page is generated from their headers; every threshold is a parameter, so `-p"
        " warning_share=0.1` changes it for one call.",
        "## How to read a finding",
        _HOW_TO_READ,
        "### Thresholds of several rules",
        "\n".join(_threshold(parameter) for parameter in shared.values()),
    ]
    for topic in RULE_TOPICS:
        parts.append(f"## {topic.capitalize()}")
        parts.extend(_rule(rule, shared) for rule in rules() if rule.topic == topic)
    return "\n\n".join([*parts, _HOW_TESTED]) + "\n"


_HOW_TO_READ = """\
- **cost_ns** is what the mean step gains if this alone is fixed. Where the rule can say its fix
  as a **scenario**, the run is replayed with it, and the cost is the gain that `traceweave
  what-if` gives for the same scenario (**cost_is** `replayed`); else it is **bound_ns**
  (`at most`). Findings that are not about time have none.
- **bound_ns** is what the rule puts on it by itself: what the step would gain *at most* if nothing
  else stood in the way. "Cost:" below says how it is worked out.
- Costs do not add up: a late rank costs waiting, and its late host is idle time too. `traceweave
  analyze fixes` replays the best fixes together, one after the other.
- **note** says why a cost is a bound although there is a scenario, or how far to trust the replay:
  the scenario changes more than what the finding counts, or what others claim, it selects nothing,
  replay is refused, or the run has more than `replay_ops` operations (1,000,000).
  `-p replay_ops=20000000` replays it all the same. Of very many findings, the scenarios of the ten
  costliest are replayed.
- **step_share** is the cost as a share of the step time of `health` (the mean length_ns of
  `steps`). A run without marked steps counts the whole recording of a rank as one step.
- **severity**, by which findings are sorted: `critical` for at least `critical_share` of the step
  (20 %), `warning` for `warning_share` (5 %), else `info`: of the cost, or where that is more than
  twice or less than half of it, of `on_top_ns`, what it gains on top of the fixes before it.
  Below `min_share` (1 %) a finding is left out.
- **title** says who and what in at most 12 words. On the terminal, in Markdown and on the page a
  finding is a block: severity and cost, title, evidence, advice, the next command.
- **evidence** holds the numbers, **proof** names the analysis whose rows they come from
  (`traceweave analyze <proof> run.duckdb`), **advice** is what to try first.

What the rules do not do: they call no rank late by less than the clock resolution; they do not
mistake a pipeline's schedule for a straggler; and they do not guess what a trace does not show
(with one rank alone, waiting and transfer cannot be separated, and the evidence says so)."""

_HOW_TESTED = """\
## How the rules are tested

`tests/rules` tests every rule on a real trace where it applies, and on one where it must not.
`tests/end_to_end/test_injected_causes.py` puts each cause into a simulated run, and compares the
cost with the steps' lengths with and without it; runs without a fault (DDP, FSDP, tensor and
pipeline parallel) have no finding above `info`."""


_OF_ALL_RULES = {"min_share", "warning_share", "critical_share"}
"""Parameters that are explained above the rules."""


def _shared_thresholds() -> dict[str, Parameter]:
    """Return what more than two rules have as a parameter, by name: said once, above them."""
    uses = Counter(p.name for rule in rules() for p in rule.parameters)
    every = {p.name: p for rule in rules() for p in rule.parameters}
    return {
        name: every[name]
        for name, count in sorted(uses.items())
        if count > 2 and name not in _OF_ALL_RULES
    }


def _threshold(parameter: Parameter) -> str:
    return f"- `{parameter.name}` ({_literal(parameter)}): {parameter.meaning}"


def _rule(rule: Rule, shared: Collection[str]) -> str:
    parts = [f"### {rule.name}", f"*{_sentence(rule.summary)}* {rule.finds}"]
    if rule.advice:
        parts.append(f"Try: {rule.advice}")
    own = [p for p in rule.parameters if p.name not in (*_OF_ALL_RULES, *shared)]
    if own:
        parts.append("\n".join(map(_threshold, own)))
    others = [f"`{p.name}`" for p in rule.parameters if p.name in shared]
    if others:
        parts.append(f"Also depends on {', '.join(others)}.")
    return "\n\n".join(parts)


def _section(analysis: Analysis) -> str:
    parts = [
        f"### {analysis.name}",
        f"{_sentence(analysis.summary)} {analysis.answers}",
        f"{_sentence(analysis.grain)} Order: {analysis.order}."
        f" Reads: {', '.join(relations(analysis))}.",
    ]
    if analysis.within_rank:
        parts[-1] += " Of a large run, it is asked some ranks at a time."
    if analysis.parameters:
        rows = [
            (f"`{p.name}`", p.type, f"`{_literal(p)}`", _parameter_meaning(p))
            for p in analysis.parameters
        ]
        parts.append(_table(("Parameter", "Type", "Default", "Meaning"), rows))
    columns = [(f"`{c.name}`", c.type, c.meaning) for c in analysis.columns]
    parts.append(_table(("Column", "Type", "Meaning"), columns))
    if analysis.text("main"):
        shown = ", ".join(f"`{name}`" for name in analysis.main)
        parts.append(f"A terminal shows {shown}; `--columns all` shows the others too.")
    if analysis.caveats:
        parts.append("\n".join(f"- {_sentence(caveat)}" for caveat in analysis.caveats))
    return "\n\n".join(parts)


def _parameter_meaning(parameter: Parameter) -> str:
    choices = [f"`{value}`: {meaning}" for value, meaning in parameter.choices]
    return "; ".join([parameter.meaning, *choices])


def _literal(parameter: Parameter) -> str:
    if parameter.default is None:
        return "NULL"
    if isinstance(parameter.default, bool):
        return str(parameter.default).lower()
    return str(parameter.default)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
