"""Step time and where it went: parts of the difference that add up to the whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceweave.comparison.side import Side, unit_of
from traceweave.comparison.statistics import (
    Shift,
    Tests,
    Values,
    adjust,
    changes,
    compare_samples,
    least_mann_whitney_p,
    median_shift,
    untested,
)
from traceweave.words import duration

Numbers = npt.NDArray[np.int64]

ITEM_SHARE = 0.1
"""What counts for an item, as a share of what counts for the step: many of them make a step."""


@dataclass(frozen=True)
class StepTime:
    """Step time of two runs, as the mean over the ranks; without steps the recording's length."""

    base_ns: int
    new_ns: int
    tests: Tests
    base_steps: int
    new_steps: int
    alpha: float
    level: float
    """Level of each test: half of alpha where there are two. So are the intervals."""
    smallest_change: float
    """Share of the step below which a change does not count."""
    shift: Shift
    rest_ns: float
    """The difference of the means without the longest step of either run."""
    equal: bool = False
    """Whether every step takes exactly as long in both: nothing is left to chance then."""

    @property
    def smallest_ns(self) -> float:
        """What `smallest_change` is of the base's step."""
        return self.smallest_change * self.base_ns

    @property
    def smallest_item_ns(self) -> float:
        """The same for a part of the step, a kernel, an operator, a collective."""
        return ITEM_SHARE * self.smallest_ns

    @property
    def difference_ns(self) -> int:
        """How much longer the new step is."""
        return self.new_ns - self.base_ns

    @property
    def testable(self) -> bool:
        """Whether both runs have enough steps that vary."""
        return not np.isnan(self.tests.welch_p[0])

    @property
    def robust(self) -> bool:
        """Whether there are enough steps for the Mann-Whitney test to be significant at all."""
        return self.testable and self.level < self.alpha

    @property
    def by_mean(self) -> bool:
        """Whether the means differ by enough, and by more than chance."""
        enough = abs(self.difference_ns) >= self.smallest_ns
        return self.testable and enough and bool(self.tests.welch_p[0] < self.level)

    @property
    def by_median(self) -> bool:
        """The same of steps of one run beside those of the other, which odd ones do not move."""
        enough = abs(self.shift.difference) >= self.smallest_ns
        return self.robust and enough and bool(self.tests.mann_whitney_p[0] < self.level)

    @property
    def at_median(self) -> bool:
        """Whether the median decides: where chance may have made the means differ, and one odd
        step of either run is all that speaks against it.
        """
        if not self.robust or self.by_mean:
            return False
        change, enough = self.shift.difference, abs(self.rest_ns) >= self.smallest_ns
        if self.by_median:
            return enough and self.rest_ns * change > 0
        return not enough

    @property
    def verdict(self) -> str:
        """'same' (surely too small to count), 'slower', 'faster', 'not significant' (which is said
        as 'cannot tell') or 'not testable'.

        What the run takes in all is its mean; where chance may have made that, the median decides.
        """
        change = self.shift.difference if self.at_median else self.difference_ns
        if not self.testable:
            return "same" if abs(change) < self.smallest_ns else "not testable"
        low, high = self.interval
        if self.equal or max(-low, high) <= self.smallest_ns:
            return "same"
        if not (self.by_median if self.at_median else self.by_mean):
            return "not significant"
        return "slower" if change > 0 else "faster"

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the confidence interval of what decides, the difference of means or the shift."""
        if self.at_median:
            return self.shift.low, self.shift.high
        return float(self.tests.low[0]), float(self.tests.high[0])

    @property
    def undecided(self) -> str:
        """Why it cannot tell whether the step changed by enough to count; '' if it can."""
        if self.equal or (self.testable and self.verdict != "not significant"):
            return ""
        if not self.testable:
            return "too little was recorded to test it"
        low, high = self.interval
        steps = f"{self.base_steps} and {self.new_steps} steps"
        return f"the difference of {steps} is known to ±{duration((high - low) / 2)}; record more"


def compare_step_time(base: Side, new: Side, alpha: float, smallest_change: float) -> StepTime:
    """Test the step times of two runs against each other."""
    testable = base.steps is not None and new.steps is not None
    samples = [side.per_rank("window_ns") for side in (base, new)]
    return _step_time(samples, alpha, smallest_change, testable=testable)


def _step_time(
    samples: list[Values], alpha: float, smallest_change: float, *, testable: bool
) -> StepTime:
    base, new = samples
    pair = [sample[np.newaxis, :] for sample in samples]
    counts, equal = (len(base), len(new)), np.array_equal(base, new)
    level = alpha / 2 if least_mann_whitney_p(*counts) < alpha / 2 else alpha
    tests = compare_samples(pair, 1 - level)
    if not testable:
        tests = untested(tests.difference)
    means = round(base.mean()), round(new.mean())
    shift = median_shift(base, new, 1 - level)
    rest = float(_without_longest(new).mean() - _without_longest(base).mean())
    return StepTime(*means, tests, *counts, alpha, level, smallest_change, shift, rest, equal)


def _without_longest(values: Values) -> Values:
    return np.sort(values)[:-1] if len(values) > 1 else values


def step_table(time: StepTime, base: Side, new: Side) -> pa.Table:
    """Return the step times and their tests: the mean over the ranks, and the slowest rank's."""
    slowest = [side.totals["slowest_ns"] for side in (base, new)]
    other = _step_time(slowest, time.alpha, time.smallest_change, testable=time.testable)
    rows = [_step_row("mean of ranks", time), _step_row("slowest rank of each step", other)]
    return pa.Table.from_pylist(rows, schema=_STEP_SCHEMA)


_STEP_SCHEMA = pa.schema(
    [
        ("sample", pa.string()),
        ("verdict", pa.string()),
        ("base_ns", pa.int64()),
        ("new_ns", pa.int64()),
        ("difference_ns", pa.int64()),
        ("relative", pa.float64()),
        ("low_ns", pa.int64()),
        ("high_ns", pa.int64()),
        ("shift_ns", pa.int64()),
        ("shift_low_ns", pa.int64()),
        ("shift_high_ns", pa.int64()),
        ("welch_p", pa.float64()),
        ("mann_whitney_p", pa.float64()),
        ("hedges_g", pa.float64()),
        ("slower_share", pa.float64()),
        ("base_steps", pa.int64()),
        ("new_steps", pa.int64()),
    ]
)


def _step_row(sample: str, time: StepTime) -> dict[str, object]:
    tests = {
        name: None if np.isnan(value := getattr(time.tests, name)[0]) else float(value)
        for name in ("welch_p", "mann_whitney_p", "hedges_g", "slower_share")
    }
    ends = {
        "low_ns": time.tests.low[0],
        "high_ns": time.tests.high[0],
        "shift_low_ns": time.shift.low,
        "shift_high_ns": time.shift.high,
    }
    return {
        "sample": sample,
        "verdict": time.verdict,
        "base_ns": time.base_ns,
        "new_ns": time.new_ns,
        "difference_ns": time.difference_ns,
        "relative": time.difference_ns / time.base_ns if time.base_ns else None,
        "shift_ns": round(time.shift.difference),
        **{name: None if np.isnan(end) else round(end) for name, end in ends.items()},
        **tests,
        "base_steps": time.base_steps,
        "new_steps": time.new_steps,
    }


def budget_table(time: StepTime, base: Side, new: Side) -> pa.Table:
    """Return what the step is made of in both runs; the last row is the whole.

    Means over the ranks in ns add up to the last row exactly: parts are rounded together. `rank` is
    the one that changed alone, if the part changed and one did, by `rank_difference_ns`.
    """
    causes = sorted({*base.idle, *new.idle}, key=lambda c: -_largest(c, base, new))
    columns = {
        "compute": "compute_ns",
        **_communication(base, new),
        "exposed memory": "exposed_memory_ns",
    }
    labels = [*columns, *(f"idle: {cause.replace('_', ' ')}" for cause in causes)]
    samples = [_parts(side, columns.values(), causes) for side in (base, new)]
    whole = [_rounded_together(sample.mean(axis=1)) for sample in samples]
    p = np.full(len(labels), np.nan)
    if time.testable:
        p = adjust(compare_samples(samples).welch_p)
    difference = whole[1] - whole[0]
    words = changes(difference, p, time.alpha, time.smallest_item_ns, ("longer", "shorter"))
    total = int(difference.sum())
    names = (*columns.values(), *causes)
    alone = [
        _alone(time, base, new, *of) for of in zip(names, difference.tolist(), words, strict=True)
    ]
    return pa.table(
        {
            "part": [*labels, unit_of(base, new)],
            "change": [*words, time.verdict],
            "base_ns": [*whole[0].tolist(), int(whole[0].sum())],
            "new_ns": [*whole[1].tolist(), int(whole[1].sum())],
            "difference_ns": [*difference.tolist(), total],
            "base_share": [*(whole[0] / max(whole[0].sum(), 1)).tolist(), 1.0],
            "new_share": [*(whole[1] / max(whole[1].sum(), 1)).tolist(), 1.0],
            "p_adjusted": pa.array([*p, time.tests.welch_p[0]], from_pandas=True),
            "rank": pa.array([*(rank for rank, _ in alone), None], pa.int32()),
            "rank_difference_ns": pa.array([*(ns for _, ns in alone), None], pa.int64()),
        }
    )


def _alone(
    time: StepTime, base: Side, new: Side, part: str, mean_ns: int, word: str
) -> tuple[int | None, int | None]:
    """Return the rank whose part of the step changed the way the mean did, by enough to count and
    by twice as much as any other's, and by how much, ns; nothing where the ranks are others, or
    chance may have changed the part (`word`), whatever became of the step: two faults may make up
    for each other.
    """
    was, now = (side.of_rank.get(part, {}) for side in (base, new))
    ranks = base.of_rank["compute_ns"].keys()
    # what takes the same in every step has no spread to test against, and yet is no chance
    changed = time.testable and word not in ("same", "not significant")
    if not changed or len(ranks) < 2 or ranks != new.of_rank["compute_ns"].keys():
        return None, None
    found = {rank: now.get(rank, 0.0) - was.get(rank, 0.0) for rank in sorted(ranks)}
    first, second = sorted(found, key=lambda rank: -abs(found[rank]))[:2]
    change = found[first]
    if abs(change) < max(2 * abs(found[second]), time.smallest_ns, 1) or change * mean_ns <= 0:
        return None, None
    return first, round(change)


def _communication(base: Side, new: Side) -> dict[str, str]:
    """Return parts of exposed communication and their columns of steps.sql.

    Waiting and transfer apart, where both runs tell them from each other; what of that is not told
    is a third part, if there is any.
    """
    parts = {"exposed waiting": "exposed_wait_ns", "exposed transfer": "exposed_transfer_ns"}
    whole = {"exposed communication": "exposed_comm_ns"}
    rest = {"waiting or transfer": "exposed_unsplit_ns"}
    told = [any(side.totals[c].any() for c in parts.values()) for side in (base, new)]
    unsplit = [bool(side.totals["exposed_unsplit_ns"].any()) for side in (base, new)]
    if not any(told) or any(u and not t for u, t in zip(unsplit, told, strict=True)):
        return whole
    return parts | rest if any(unsplit) else parts


def _parts(side: Side, columns: Iterable[str], causes: list[str]) -> Values:
    """Return the parts of the step time as parts x steps, means over the ranks, ns."""
    none = np.zeros(side.count)
    idle = [side.idle.get(cause, none) / side.ranks for cause in causes]
    return np.array([*(side.per_rank(column) for column in columns), *idle])


def _largest(cause: str, base: Side, new: Side) -> float:
    return max(
        float(s.idle[cause].sum()) / s.ranks / s.count for s in (base, new) if cause in s.idle
    )


def _rounded_together(parts: Values) -> Numbers:
    """Return integers that differ from the parts by less than 1 and add up to their rounded sum."""
    ends = np.rint(np.append(0, np.cumsum(parts))).astype(np.int64)
    parts_ns: Numbers = ends[1:] - ends[:-1]
    return parts_ns
