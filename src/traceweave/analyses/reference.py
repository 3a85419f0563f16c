"""The reference page of the analyses, written from their headers."""

from __future__ import annotations

from collections.abc import Iterable

from traceweave.analyses.catalog import TOPICS, Analysis, Parameter, catalog


def catalog_markdown() -> str:
    """Return docs/analyses.md: every analysis with its parameters and columns, in Markdown."""
    parts = [
        "# Analyses",
        "Each is one SQL file. Ask it with `traceweave analyze <name> run.duckdb` or"
        ' `run.analyze("<name>", ...)`. All times are integer nanoseconds on the common clock;'
        " this page is generated from the headers of the files.",
    ]
    for topic in TOPICS:
        parts.append(f"## {topic.capitalize()}")
        parts.extend(_section(analysis) for analysis in catalog() if analysis.topic == topic)
    return "\n\n".join(parts) + "\n"


def _section(analysis: Analysis) -> str:
    parts = [
        f"### {analysis.name}",
        f"{_sentence(analysis.summary)} {analysis.answers}",
        f"{_sentence(analysis.grain)} Order: {analysis.order}. Reads: {', '.join(analysis.reads)}.",
    ]
    if analysis.parameters:
        rows = [
            (f"`{p.name}`", p.type, f"`{_literal(p)}`", _parameter_meaning(p))
            for p in analysis.parameters
        ]
        parts.append(_table(("Parameter", "Type", "Default", "Meaning"), rows))
    columns = [(f"`{c.name}`", c.type, c.meaning) for c in analysis.columns]
    parts.append(_table(("Column", "Type", "Meaning"), columns))
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
