"""Which clocks bend and step: models grow as long as that makes their ends more likely, and lose
what does not pay."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import chain

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.candidates import after_each, candidates, told_of
from traceweave.clocks.ends import Ends
from traceweave.clocks.model import GPU, STEP, VARIANCES, WAVE, Model, Step
from traceweave.clocks.start import MANY, SAME_NS, Start
from traceweave.clocks.variances import Posterior, learn_bends, learn_constants, price, worth
from traceweave.medians import medians

MOST = 40_000
"""Ends that tell where clocks bend and step; the last rounds see all."""
LEAST = 100
"""Instances of a cell that are kept of it then."""
OCTAVE = 0.2
"""Transfers that differ by a smaller part of an octave count as equally long."""
MOST_BENT = 128
"""Clocks that may bend at once."""
BEND_NS = 30_000.0
"""Standard deviation of a bend, before the calls tell better."""
MOST_SHARED = 8
"""Clocks that are told apart of those that seem to step at once, in runs of no more steps."""
UNSURE = 3.0
"""Log likelihood by which a moment is less likely than the best, and may yet be that of a step: one
in twenty."""


def fit_model(ends: Ends, start: Start, on_gpu: Flags) -> Model:
    """Fit all clocks at once, from their first lines on."""
    many = len(start.unit) > MANY
    when = medians(ends.local + start.added(ends.rank, ends.local), ends.row)
    ends = ends.of_rows(np.argsort(when, kind="stable"))
    few = ends.of_rows(ends.tying(start.unit)) if many else ends
    few = few.thinned(MOST, LEAST) if few.rows else ends
    model = _model(ends, start, (when.min() - 1, when.max() + 1), on_gpu, many)
    _show(model, few, start)
    model.settle()
    model.pool()
    _grow(model)
    model.settle()
    model.pool()
    if not many:
        learn_constants(model)
    if few is not ends:
        _show(model, ends, start)
    if many:
        model.constants()
    model.spans = spans(model)
    return model


def _model(ends: Ends, start: Start, span: tuple[float, float], on_gpu: Flags, many: bool) -> Model:
    # waves come last: of messages, one as high as a transfer would pass for what a step does
    var = dict.fromkeys(VARIANCES, 0.0) if many else {**VARIANCES, WAVE: 0.0}
    cells, units = int(ends.cell.max()) + 1, int(start.unit.max()) + 1
    lead = np.unique(start.unit, return_index=True)[1]
    return Model(
        span=span,
        unit=start.unit,
        fixed=np.isin(np.arange(units), start.unit[start.root]),
        on_gpu=on_gpu,
        slope=-start.drift[lead] * (span[1] - span[0]) / 2,
        long=_alike(medians(ends.transfer, ends.cell)),
        sigma=np.full(cells, 3e4),
        effect=np.ones(cells),
        bend_var=np.zeros(units),
        var=var,
    )


def _show(model: Model, ends: Ends, start: Start) -> None:
    """Let the model see these ends."""
    model.ends = ends
    model.base = ends.local + start.added(ends.rank, ends.local)
    model.when = medians(model.base, ends.row)
    model.prepare()


def _grow(model: Model) -> None:
    """Let clocks bend and step as ends say that are one per clock and instance, less what GPUs are
    off: of ranks of a host none bends or steps by itself, and fewer ends take less time."""
    tying, one = model.ends.tying(model.unit), copy(model)
    if tying.any():
        lead = np.unique(model.unit, return_index=True)[1]
        local = model.moved((GPU,))[tying[model.ends.row]]
        one.ends = model.ends.of_rows(tying).united(model.unit, lead, local)
        one.base, one.when, one.var = one.ends.local, model.when[tying], {**model.var, GPU: 0.0}
        one.prepare()
        one.settle()
        one.pool()
        one = grown(one)
    known = dict(zip(model.names, model.theta.tolist(), strict=True))
    told = zip(one.names, one.theta.tolist(), strict=True)
    known |= {name: value for name, value in told if name[0] <= STEP}
    model.names, model.theta = list(known), np.array(list(known.values()))
    model.bend_var, model.steps, model.uneven = one.bend_var, one.steps, True
    model.prepare()


def _alike(long: Floats) -> Floats:
    """Transfer times of cells, those that hardly differ made one: lags are not told from offsets by
    a hundredth of a transfer."""
    order = np.argsort(long)
    log = np.log2(np.maximum(long[order], 1.0))
    group = np.r_[0, np.cumsum(np.diff(log) > OCTAVE)]
    mean = np.bincount(group, log) / np.bincount(group)
    result = np.empty_like(long)
    result[order] = 2 ** mean[group]
    return result


def grown(model: Model) -> Model:
    """Return the model with bends and steps that make its ends likely, the likelier of two ways."""
    moving = [steps[0].unit for _, steps in candidates(model)][:MOST_BENT]
    if not moving:
        return model
    ways = (_grown(model, moving, rounds) for rounds in (0, 1))
    return split(max(ways, key=worth))


def _grown(model: Model, moving: list[int], rounds: int) -> Model:
    """Clocks that seem to move bend before steps are looked for, so that no step of one leaves
    lines of others aslant; or after a round of steps, so that no bend is taken for one."""
    one = copy(model)
    one.uneven = True
    one.settle(8)
    add_steps(one, rounds)
    one.bend_var = np.where(np.isin(np.arange(len(one.fixed)), moving), BEND_NS**2, 0.0)
    one.prepare()
    one.settle(12)
    learn_bends(one)
    if rounds:
        learn_bends(one, 1, prune=True)
    add_steps(one)
    learn_bends(one, 1, prune=True)
    one = without_idle(one)
    one.settle(12)
    place_steps(one)
    return one


def add_steps(model: Model, rounds: int = 6) -> None:
    """Add steps while they pay: in each round that of every clock that seems to step, or the two of
    one that comes back."""
    for _ in range(rounds):
        found = [steps for _, steps in candidates(model)]
        if not found:
            return
        once = [steps for steps in found if len(steps) == 1]
        back = [steps for steps in found if len(steps) > 1][:1]
        before, tried = model.evidence(), []
        for some in filter(None, (once, back)):
            one = copy(model)
            set_steps(one, [*one.steps, *chain.from_iterable(some)])
            one.settle(12)
            learn_bends(one, 1)
            place_steps(one)
            cost = price(model) * (len(one.steps) - len(model.steps))
            tried.append((one.evidence() - before - cost, one))
        gain, best = max(tried, key=lambda pair: pair[0])
        if gain < 0:
            return
        model.__dict__.update(best.__dict__)


def set_steps(model: Model, steps: list[Step]) -> None:
    """Give clocks these steps; what stays keeps its height."""
    model.steps = steps
    model.prepare()


def without_idle(model: Model) -> Model:
    """Return the model without steps that do not pay: without the least clear one, fitted again, as
    long as that makes ends no less likely than a step has to."""
    while model.steps:
        told, place = Posterior(model), np.flatnonzero(model.kind == STEP)
        least = int(np.argmin(told.mean[place] ** 2 / np.diag(told.cov)[place]))
        one = copy(model)
        set_steps(one, model.steps[:least] + model.steps[least + 1 :])
        one.settle(8)
        learn_bends(one, 1)
        if model.evidence() - one.evidence() > price(model):
            break
        model = one
    return model


def place_steps(model: Model, rounds: int = 4) -> None:
    """Move steps to where they make ends most likely, given their heights and all else: a step was
    placed when others that lie beside it were not known yet."""
    for _ in range(rounds):
        places = [_place(model, step, *found) for step, found in _places(model)]
        if places == model.steps:
            return
        heights = model.height
        set_steps(model, places)
        model.theta[model.kind == STEP] = heights
        model.settle(8)


def _place(model: Model, step: Step, at: Floats, gain: Floats) -> Step:
    if not len(gain):
        return step
    now, best = int(np.searchsorted(at, step.at)) - 1, int(np.argmax(gain))
    if not 0 <= now < len(gain) or gain[best] < gain[now] + 1:
        return step
    return Step(step.unit, float(at[best]), float(at[best + 1]))


def _places(model: Model) -> Iterator[tuple[Step, tuple[Floats, Floats]]]:
    """Of each step the instances that tell when it was, and the log likelihood of its being after
    each, but the last, all else being as it is."""
    weighed = model.weigh()
    for step, height, after in zip(model.steps, model.height, model.after, strict=True):
        told = told_of(model, step.unit, weighed)
        at, rest = model.when[told.row], told.apart - height * after[told.row]
        yield step, (at, after_each(told, at, rest, -height))


def spans(model: Model) -> list[tuple[float, float]]:
    """Return of each step since when and until when it may have been."""
    found = []
    for step, (at, gain) in _places(model):
        likely = np.flatnonzero(gain > gain.max(initial=-np.inf) - UNSURE)
        low, high = (at[likely[0]], at[likely[-1] + 1]) if len(likely) else (np.inf, -np.inf)
        found.append((min(float(low), step.since), max(float(high), step.until)))
    return found


def split(model: Model) -> Model:
    """Return the model in which, of clocks that step at once, those that go equally far stay and
    all others step, each at a moment of its own: two that lie near each other pass for one."""
    for step in model.steps if len(model.steps) <= MOST_SHARED else ():
        some, level, height = _at_once(model, step)
        for still in range(len(height)):
            moved = np.flatnonzero(level != still)
            if len(moved) > MOST_SHARED:
                continue
            one = _instead(model, some, moved, height[level[moved]] - height[still])
            if one is None:
                break
            if worth(one) + price(one) * len(moved) > worth(model):  # what idle ones cost
                one = without_idle(one)
                if worth(one) > worth(model) + UNSURE:
                    return split(one)
    return model


def _at_once(model: Model, step: Step) -> tuple[list[Step], Ints, Floats]:
    """The steps that may be at one moment with this one; which clocks go equally far then, a number
    each, and how far those of each number do."""
    some = [s for s in model.steps if s.since < step.until and s.until > step.since]
    height = np.zeros(len(model.fixed))
    for s, by in zip(model.steps, model.height, strict=True):
        height[s.unit] += by * (s in some)
    order = np.argsort(height)
    level = np.empty(len(order), np.int64)
    level[order] = np.r_[0, np.cumsum(np.diff(height[order]) > SAME_NS)]
    return some, level, np.bincount(level, height) / np.bincount(level)


def _instead(model: Model, some: list[Step], moved: Ints, heights: Floats) -> Model | None:
    """The model with steps of these clocks in place of some others, moved to where they fit."""
    since, until = max(s.since for s in some), min(s.until for s in some)
    if since >= until:
        return None
    one = copy(model)
    kept = [(s, by) for s, by in zip(model.steps, model.height, strict=True) if s not in some]
    set_steps(one, [*[s for s, _ in kept], *[Step(int(u), since, until) for u in moved]])
    one.theta[one.kind == STEP] = np.r_[[by for _, by in kept], heights]
    one.settle(8)
    place_steps(one)
    return one
