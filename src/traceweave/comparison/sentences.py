"""A comparison in plain sentences: the same on the terminal and on the page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from traceweave.comparison.budget import StepTime
from traceweave.comparison.side import Side, unit_of
from traceweave.comparison.statistics import FEWEST, odd_ones
from traceweave.vocabulary import fitted
from traceweave.words import LONG_NAME, count, duration, folded, number, percent, plural, shortened

MOST_NAMED = 3
"""Parts or kernels that a sentence names."""


def sentences(
    base: Side, new: Side, time: StepTime, tables: dict[str, pa.Table], *, alike: bool
) -> tuple[str, ...]:
    """Return what was found, the step time first; empty statements are left out.

    Of runs that are not alike it is how long a step takes in either, and no verdict.
    """
    if not alike:
        both = f"{duration(time.base_ns)} in base, {duration(time.new_ns)} in new"
        return (f"Mean {unit_of(base, new)}: {both}.",)
    found = (
        headline(time, unit_of(base, new)),
        *_doubts(time),
        *_long_steps(base, new, time),
        _parts(tables["budget"].to_pylist()),
        _calls(tables["collectives"], unit_of(base, new)),
        _items(tables["classes"], "Kernel classes", time.smallest_item_ns),
        _items(tables["kernels"], "Kernels", time.smallest_item_ns),
        _items(tables["ops"], "Operators and ranges of the host", time.smallest_item_ns),
    )
    return tuple(text for text in found if text)


def headline(time: StepTime, unit: str) -> str:
    """Say in one sentence how the step times compare."""
    relative = time.difference_ns / time.base_ns if time.base_ns else None
    if time.equal:
        what = f"the {unit}" if time.base_steps == 1 else f"each of {plural(time.base_steps, unit)}"
        mean = f"mean {duration(time.base_ns)}"
        return f"Step time: no difference: {what} takes exactly as long in both ({mean})."
    change = f"{duration(time.new_ns)} instead of {duration(time.base_ns)}"
    amount = "from nothing" if relative is None else percent(relative, signed=True)
    if time.at_median and relative is not None:
        change = f"mean {change}, {amount}"
        amount = f"{percent(time.shift.difference / time.base_ns, signed=True)} at the median"
    if time.testable and time.undecided:
        return f"Step time: cannot tell ({change}, {amount}): {time.undecided}."
    if time.verdict == "same":
        what = "Step time" if time.testable else f"Mean {unit}"
        return f"{what}: the same within {_share(time.smallest_change)} ({change}, {amount})."
    if time.verdict == "not testable":
        return f"Mean {unit}: {change} ({amount}); too little was recorded to test it."
    return f"Step time: {amount}, significantly {time.verdict} ({change})."


def _doubts(time: StepTime) -> tuple[str, ...]:
    """Say what the verdict on the step time cannot be sure of."""
    if time.equal:
        return ()
    if not time.testable:
        return (f"A test needs {FEWEST} steps on either side whose times vary.",)
    between = " to ".join(duration(round(end), signed=True) for end in time.interval)
    at_median = " at the median" if time.at_median else ""
    share = _share(1 - time.level)
    interval = f"{share} confidence interval of the difference{at_median}: {between}."
    beside = ""
    if time.robust and not time.at_median:
        shift = percent(time.shift.difference / time.base_ns, signed=True)
        beside = f"Steps of one run beside those of the other differ by {shift} at the median."
    return (interval, beside)


def method(time: StepTime) -> tuple[str, ...]:
    """Say what the verdicts rest on: the footnotes."""
    smallest_ns, least_ns = time.smallest_ns, time.smallest_item_ns
    counts = (
        f"Too small to count is what changes the step by less than {_share(time.smallest_change)}"
        f" of the base's ({duration(smallest_ns)}), and an item by less than a tenth of that"
        f" ({duration(least_ns)})."
    )
    if not time.testable or time.equal:
        return (counts,)
    tests = time.tests
    return (
        counts,
        f"Step time: Welch p = {number(tests.welch_p[0])}, Mann-Whitney p ="
        f" {number(tests.mann_whitney_p[0])}; effect size g = {number(tests.hedges_g[0])}.",
        "They are of these two recordings: record the base again to see how much it differs from"
        " itself.",
    )


def _share(fraction: float) -> str:
    return percent(fraction).replace(".0%", "%")


def _long_steps(base: Side, new: Side, time: StepTime) -> tuple[str, ...]:
    """Say which steps take the mean away from the median, where the means may differ by chance."""
    if time.by_mean or base.steps is None or new.steps is None:
        return ()
    sides = (("base", base, base.steps), ("new", new, new.steps))
    return tuple(_long(label, side, steps, time.smallest_ns) for label, side, steps in sides)


def _long(label: str, side: Side, numbers: tuple[int, ...], smallest_ns: float) -> str:
    lengths = side.per_rank("window_ns")
    odd = odd_ones(lengths)
    if not odd.any():
        return ""
    usual = float(np.median(lengths[~odd]))
    if (lengths[odd] - usual).sum() < smallest_ns * len(lengths):
        return ""
    steps = [step for step, is_odd in zip(numbers, odd, strict=True) if is_odd]
    which = f"{len(steps)} of {count(len(lengths))} {label} steps ({folded(steps)})"
    take = "takes" if len(steps) == 1 else "take"
    longer, others = duration(round(lengths[odd].mean())), duration(round(usual))
    return f"{which} {take} {longer}, the others {others} at the median."


def _parts(rows: list[dict[str, Any]]) -> str:
    changed = sorted(rows[:-1], key=lambda row: -abs(row["difference_ns"]))
    named = [row for row in changed[:MOST_NAMED] if row["difference_ns"]]
    if not named:
        return ""
    parts = ", ".join(f"{row['part']} {_change(row)}{_of_rank(row)}" for row in named)
    whole = _change(rows[-1])
    doubtful = [row["part"] for row in named if row["change"] == "not significant"]
    doubt = f" Not significant by itself: {', '.join(doubtful)}." if doubtful else ""
    return f"Of the {whole} per {rows[-1]['part']} and rank: {parts}.{doubt}"


def _of_rank(row: dict[str, Any]) -> str:
    if row["rank"] is None:
        return ""
    return f" (rank {row['rank']} {duration(row['rank_difference_ns'], signed=True)})"


def _items(table: pa.Table, kind: str, least_ns: float) -> str:
    rows = [row for row in table.to_pylist() if abs(row["difference_ns"]) >= least_ns]
    changes = [row["change"] for row in rows]
    counts = [f"{count(changes.count(word))} {word}" for word in _CHANGED if word in changes]
    if not counts and "not testable" in changes:
        return f"{kind}: not tested, too little was recorded."
    if not counts:
        return f"{kind}: none changed significantly." if len(table) else ""
    most = [row for row in rows if row["change"] in _CHANGED][:MOST_NAMED]
    names = fitted([row["item"] for row in most], LONG_NAME)
    named = ", ".join(_item(row, names[row["item"]]) for row in most)
    return f"{kind}: {', '.join(counts)}; most changed: {named}."


_CHANGED = ("slower", "faster", "added", "removed")
"""What a sentence says became of an item."""


def _item(row: dict[str, Any], name: str) -> str:
    """Name an item with its shape: how much longer it takes, and how often it is called if that
    changed."""
    name, word = f"{name} {shortened(row['shape'])}" if row["shape"] else name, row["change"]
    if word in ("added", "removed"):
        return f"{name} ({word}, {_change(row)})"
    was, now = (number(row[f"{side}_calls"]) for side in ("base", "new"))
    calls = f", {now} instead of {was} calls" if was != now else ""
    return f"{name} ({percent(row['relative'], signed=True)}, {_change(row)}{calls})"


def _calls(table: pa.Table, unit: str) -> str:
    """Name the collectives that are called more or less often."""
    calls: dict[str, list[float]] = {}
    for row in table.to_pylist():
        if row["class"] == "all":
            of = calls.setdefault(row["item"], [0.0, 0.0])
            of[0] += row["base_calls"]
            of[1] += row["new_calls"]
    changed = [
        (op, round(was), round(now))
        for op, (was, now) in calls.items()
        # what a step has now and then is no whole number of times in the mean
        if was.is_integer() and now.is_integer() and was != now
    ]
    changed.sort(key=lambda one: -abs(one[2] - one[1]))
    named = ", ".join(f"{now} {op} instead of {was}" for op, was, now in changed[:MOST_NAMED])
    return f"Collectives per {unit} and rank: {named}." if named else ""


def _change(row: dict[str, Any]) -> str:
    return duration(row["difference_ns"], signed=True)


def samples(base: Side, new: Side) -> tuple[str, ...]:
    """Say which steps of either run the numbers rest on."""
    texts = []
    for label, side in (("base", base), ("new", new)):
        ranks = plural(side.ranks, "rank")
        if side.ranks_without_work:
            ranks += f" ({count(side.ranks_without_work)} more recorded no GPU work)"
        if side.steps is None:
            texts.append(f"{label} ({side.name}): {ranks}, one recording.")
            continue
        reasons: dict[str, list[int]] = {}
        for step, reason in side.left_out:
            reasons.setdefault(reason, []).append(step)
        out = "; ".join(
            f"left out {plural(len(steps), 'step')} ({folded(steps)}): {reason}"
            for reason, steps in reasons.items()
        )
        texts.append(
            f"{label} ({side.name}): {ranks}, {plural(side.count, 'step')}"
            + (f"; {out}." if out else ".")
        )
    return tuple(texts)
