"""A finding as it is read: a title with what it costs, the evidence, what to try, what to type."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from traceweave.words import duration, percent

HARDLY = 0.0005
"""A share of the step below this is rounding, or chance: it is written <0.1%."""


class Block(NamedTuple):
    """A row of `findings` in words. Who shows one adds nothing to it."""

    severity: str
    cost: str
    """What it costs: 'at most 5.38 ms per step (6.2%)', with ±12.1 ms where it may be off by half,
    or by what another recording may differ, if that is all of it; what it gains beside others and
    alone, where these differ by half; '' where it costs no time."""
    title: str
    """Who and what, in at most 12 words."""
    evidence: str
    advice: str
    """'' where a rule of the user's gives none."""
    command: str
    """What to type next: its scenario, else the analysis that shows its rows."""

    @property
    def headline(self) -> str:
        """The title behind what it costs."""
        return f"{self.cost}: {self.title}" if self.cost else self.title


def block(row: Mapping[str, Any], database: str) -> Block:
    """Put a row of `findings` in words; `database` is how a shell names the run."""
    command, of = following(row)
    return Block(
        row["severity"],
        cost_in_words(row),
        row["title"],
        row["evidence"] or "",
        row["advice"] or "",
        f"traceweave what-if {database} {shlex.quote(of)}"
        if command == "what_if"
        else f"traceweave analyze {of} {database}",
    )


def following(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return what to ask after a row of `findings`: 'what_if' and its scenario, else 'analyze' and
    the analysis that shows its rows."""
    return ("what_if", row["scenario"]) if row["scenario"] else ("analyze", row["proof"])


def is_worth_it(row: Mapping[str, Any]) -> bool:
    """Whether what a row of `findings` costs is more than hardly anything; what is a bound is."""
    replayed = row["cost_is"] == "replayed" and row["step_share"] is not None
    return bool(row["cost_ns"]) and not (replayed and row["step_share"] < HARDLY)


def cost_in_words(row: Mapping[str, Any]) -> str:
    """Say what a row of `findings` costs: in time, and as a share of the step."""
    if row["cost_ns"] is None:
        return ""
    share = "" if row["step_share"] is None else f" ({percent(row['step_share'])})"
    most = "" if row["cost_is"] == "replayed" else "at most "
    if (later := row["on_top_ns"]) is not None:
        alone = (
            f"{most}{duration(row['cost_ns'])}{share}" if is_worth_it(row) else "hardly anything"
        )
        return f"{duration(later)} per {row['per']} once others are fixed; alone {alone}"
    if not row["cost_ns"]:
        return "no gain by replay"
    if not is_worth_it(row):  # nanoseconds of rounding, or milliseconds of a long step
        return "hardly any gain by replay" + share
    off = row["uncertainty_ns"]
    give = doubt = ""
    if off is not None and off >= row["cost_ns"]:
        doubt = f"; another recording may differ by {duration(off)}"
    elif off is not None and 2 * off >= row["cost_ns"]:  # below that any recording may show as much
        give = f" ±{duration(off)}"
    return f"{most}{duration(row['cost_ns'])}{give} per {row['per']}{share}{doubt}"
