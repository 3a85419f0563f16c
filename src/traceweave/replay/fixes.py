"""What fixing what was found would be worth: each fix alone, and the first n together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import duckdb

from traceweave import words
from traceweave.errors import QueryError, UsageError
from traceweave.replay.graph import NothingToReplayError
from traceweave.replay.model import Model

TOO_WEAK = 0.5
"""Where no edge explains more than this share of the critical path, a replay says little."""

MOST_FIXES = 10
"""Scenarios that are replayed: those of the costliest findings."""


@dataclass(frozen=True)
class Fix:
    """One scenario, or with n = 0 the run as it is; times are means over steps, ns.

    Of a run that is not replayed there is the latter alone, with a note.
    """

    n: int | None = None
    """Its place among those that gain something, the best first."""
    scenario: str | None = None
    alone_ns: int | None = None
    """Gain of this scenario alone; None: it was not replayed."""
    step_ns: int | None = None
    """Mean step with the first n together."""
    bottleneck: str | None = None
    """What the critical path is then mostly made of."""
    note: str | None = None


def fixes(con: duckdb.DuckDBPyConnection, scenarios: Sequence[str]) -> list[Fix]:
    """Return what the scenarios are worth, the best first; nothing for no scenario.

    Where the run cannot be replayed, one row says why.
    """
    if not scenarios:
        return []
    try:
        model = Model(con)
    except NothingToReplayError:
        return []
    except QueryError as error:
        return [Fix(n=0, note=str(error))]
    if model.unexplained > TOO_WEAK:
        return [Fix(n=0, note=f"not replayed: {model.note}")]
    alone = [_alone(model, scenario) for scenario in scenarios[:MOST_FIXES]]
    alone.sort(key=lambda fix: -(fix.alone_ns or 0))
    useful = [fix for fix in alone if (fix.alone_ns or 0) > 0]
    others = [fix for fix in alone if fix not in useful]
    rest = f"not replayed: only the {MOST_FIXES} costliest scenarios are"
    others += [Fix(scenario=scenario, note=rest) for scenario in scenarios[MOST_FIXES:]]
    return [_as_it_is(model), *_together(model, useful), *others]


def refused(operations: int, most: int) -> list[Fix]:
    """Return why a run of so many operations is not replayed."""
    return [
        Fix(
            n=0,
            note=f"not replayed: {words.count(operations)} operations are more than"
            f" {words.count(most)}; -p replay_ops={operations} replays them all the same",
        )
    ]


def _as_it_is(model: Model) -> Fix:
    step = round(model.measured)
    return Fix(n=0, step_ns=step, bottleneck=model.bottleneck, note=model.note)


def _alone(model: Model, scenario: str) -> Fix:
    try:
        step = model.step(scenario)
    except UsageError as error:
        return Fix(scenario=scenario, note=str(error))
    gain = round(model.measured) - round(step)
    return Fix(scenario=scenario, alone_ns=gain, note=model.note)


def _together(model: Model, useful: Sequence[Fix]) -> list[Fix]:
    found = []
    for n, fix in enumerate(useful, start=1):
        first = "; ".join(one.scenario or "" for one in useful[:n])
        answer = model.answer(*model.parsed(first))
        values = asdict(fix) | {
            "n": n,
            "step_ns": round(answer.predicted_step_ns),
            "bottleneck": answer.bottleneck,
        }
        found.append(Fix(**values))
    return found
