"""How far the collectives of different ranks were matched, and whether the clocks contradict it."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from traceweave.report.page import Origin
from traceweave.report.query import analysis_rows
from traceweave.words import count, duration, plural

MATCHING = Origin("Matching", "traceweave analyze matching run.duckdb -p per=run")


@dataclass(frozen=True)
class Matching:
    """The row of analysis matching for the whole run; nothing counted if it has no collective."""

    calls: int = 0
    unmatched: int = 0
    instances: int = 0
    shared: int = 0
    known_instances: int = 0
    incomplete: int = 0
    unsized: int = 0
    synchronizing: int = 0
    violations: int = 0
    violation_max_ns: int | None = None
    buffered: int = 0


def load_matching(con: duckdb.DuckDBPyConnection) -> Matching:
    """Count the collectives of the run by what became of them."""
    rows = analysis_rows(con, "matching", per="run")
    return Matching(*(rows[0][name] for name in Matching.__annotations__)) if rows else Matching()


def matching_in_words(matching: Matching) -> str:
    """Say in a sentence or two how many collectives the calls make up, and what they lack."""
    text = (
        f"{plural(matching.calls, 'call')} on all ranks make up"
        f" {plural(matching.instances, 'collective')}"
    )
    rest = []
    if matching.incomplete:
        doubt = ", so that transfer may be waiting for it" if matching.shared else ""
        rest.append(f"{count(matching.incomplete)} lack a rank{doubt}")
    if matching.unsized:
        rest.append(f"of {count(matching.unsized)} it is not known whether all ranks are here")
    if matching.unmatched:
        rest.append(f"{plural(matching.unmatched, 'call')} found no partner")
    text = f"{text}; {'; '.join(rest)}." if rest else f"{text}, all complete."
    close = matching.shared - matching.buffered - matching.known_instances
    return (
        f"{text} In {count(close)} the clocks do not resolve which rank came last."
        if close
        else text
    )


def causality_in_words(matching: Matching) -> str:
    """Say in a sentence whether a collective ends anywhere before it has begun everywhere."""
    if not matching.synchronizing:
        return ""
    whole = plural(matching.synchronizing, "collective")
    if not matching.violations:
        return f"Causality holds in all {whole} that synchronize."
    return (
        f"{count(matching.violations)} of {whole} that synchronize end on one rank before they"
        f" start on another, which cannot be: by up to {duration(matching.violation_max_ns)}."
    )
