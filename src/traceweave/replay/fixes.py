"""What fixing what was found would be worth: each fix alone, and the first n together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import duckdb

from traceweave import words
from traceweave.errors import QueryError, UsageError
from traceweave.replay.graph import NothingToReplayError
from traceweave.replay.model import Model

TOO_WEAK = 0.5
"""Where no edge explains more than this share of the critical path, or nothing is known to wait for
more than this share of the collectives, a replay says little."""

MOST_FIXES = 10
"""Scenarios that are replayed: those of the costliest findings."""


class Fix(NamedTuple):
    """One scenario, or with n = 0 the run as it is; times are means over steps, ns.

    Of a run that is not replayed there is the latter alone, with a note.
    """

    n: int | None = None
    """Its place among those that gain enough on top of each other, the best alone first, limits
    last."""
    scenario: str | None = None
    alone_ns: int | None = None
    """Gain of this scenario alone, 0 where it gains nothing; None: it was not replayed."""
    uncertainty_ns: int | None = None
    """By how much that may be off; None: one step does not tell."""
    adds_ns: int | None = None
    """What it gains on top of those before it."""
    step_ns: int | None = None
    """Mean step with the first n together."""
    bottleneck: str | None = None
    """What the critical path is then mostly made of."""
    note: str | None = None


def fixes(
    con: duckdb.DuckDBPyConnection,
    scenarios: Sequence[str],
    limits: Sequence[str] = (),
    least: float = 0.0,
) -> list[Fix]:
    """Return what the scenarios are worth, the best first; nothing for no scenario.

    `limits` are scenarios that are no fix, but the most that one can gain: they have no place, or
    the last if they are among the scenarios, as they take away what others fix. Nor has a place
    what gains less than the share `least` of the step, alone and on top of the others.
    Where the run cannot be replayed, one row says why.
    """
    if not scenarios and not limits:
        return []
    try:
        model = Model(con)
    except NothingToReplayError:
        return []
    except QueryError as error:
        return [Fix(n=0, note=str(error))]
    if model.unexplained > TOO_WEAK:
        return [Fix(n=0, note=_not_replayed(model.note))]
    others = [_alone(model, limit) for limit in limits if limit not in scenarios]
    if not scenarios:
        return others
    step = round(model.measured)
    as_it_is = Fix(n=0, step_ns=step, bottleneck=model.bottleneck, note=model.note)
    alone = [_alone(model, scenario) for scenario in scenarios[:MOST_FIXES]]
    alone.sort(key=lambda fix: (fix.scenario in limits, -(fix.alone_ns or 0)))
    # what gains nothing alone may once what hides it is gone: who is late behind a straggler
    first = _together(model, step, [fix for fix in alone if fix.alone_ns is not None], least)
    placed = {fix.scenario for fix in first}
    others += [fix for fix in alone if fix.scenario not in placed]
    rest = _not_replayed(f"only the {MOST_FIXES} costliest scenarios are")
    others += [Fix(scenario=scenario, note=rest) for scenario in scenarios[MOST_FIXES:]]
    return [as_it_is, *first, *others]


def refused(operations: int, most: int) -> list[Fix]:
    """Return why a run of so many operations is not replayed."""
    why = (
        f"{words.count(operations)} operations are more than {words.count(most)};"
        f" -p replay_ops={operations} replays them all the same"
    )
    return [Fix(n=0, note=_not_replayed(why))]


def _not_replayed(why: str | None) -> str:
    return f"not replayed: {why}"


def _alone(model: Model, scenario: str) -> Fix:
    try:
        step, uncertainty = model.step(scenario)
    except UsageError as error:
        return Fix(scenario=scenario, note=str(error))
    # what moves may be in the way of something else: that is no gain either
    gain = max(round(model.measured) - round(step), 0)
    if not gain and model.unfollowed > TOO_WEAK:
        return Fix(scenario=scenario, note=_not_replayed(model.note))
    off = None if uncertainty is None else round(uncertainty)
    return Fix(scenario=scenario, alone_ns=gain, uncertainty_ns=off, note=model.note)


def _together(model: Model, step: int, useful: Sequence[Fix], least: float) -> list[Fix]:
    """Return the first n together, without those that gain nothing on top of the others, or less
    than `least` there and alone."""
    found: list[Fix] = []
    enough = least * step
    for fix in useful:
        together = "; ".join(one.scenario or "" for one in (*found, fix))
        answer = model.answer(*model.parsed(together))
        predicted = round(answer.predicted_step_ns)
        if predicted < step and max(step - predicted, fix.alone_ns or 0) >= enough:
            found.append(
                fix._replace(
                    n=len(found) + 1,
                    adds_ns=step - predicted,
                    step_ns=predicted,
                    bottleneck=answer.bottleneck,
                )
            )
            step = predicted
    return found
