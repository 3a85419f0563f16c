"""The clock of every rank: its line or lines, what proves them, and how far to trust them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traceweave.arrays import Flags, Floats
from traceweave.clocks.answer import Answer, rows_of
from traceweave.clocks.basis import FUNCTIONS
from traceweave.clocks.bounds import bounds_of
from traceweave.clocks.clock import Clock, RankInfo
from traceweave.clocks.ends import Ends, ends_of
from traceweave.clocks.growth import grown, spans, without_idle
from traceweave.clocks.matrices import Block
from traceweave.clocks.start import Start, start_from
from traceweave.clocks.system import Model
from traceweave.clocks.variances import learn_constants
from traceweave.medians import medians

MOST = 40_000
"""Ends that tell where clocks bend and step; the last rounds see all."""
LEAST = 100
"""Instances of a cell that are kept of it then."""

OCTAVE = 0.2
"""Transfers that differ by a smaller part of an octave count as equally long."""

MANY = 256
"""Ranks beyond which what each is constantly off is found after the clocks."""


def fit_clocks(
    ranks: list[RankInfo],
    blocks: list[Block],
    origin_ns: int,
    *,
    reference_rank: int | None = None,
    same_host: bool = True,
) -> tuple[list[Clock], int]:
    """Return the clocks, a row or several per rank, and by how much, ns, causality had to be
    loosened to free it of contradictions. Times of `blocks` count from `origin_ns`.
    """
    ends = ends_of(blocks)
    start = start_from(ranks, ends, origin_ns, reference_rank, same_host)
    model = fit_model(ends, start, np.array([info.on_gpu for info in ranks])) if ends.rows else None
    answer = Answer(ranks, blocks, origin_ns, reference_rank, start, model)
    bounds = bounds_of(answer.on_common_clock(), start.root)
    answer = replace(answer, bounds=bounds)
    return [row for rank in range(len(ranks)) for row in rows_of(answer, rank)], int(
        np.ceil(bounds.slack_ns)
    )


def fit_model(ends: Ends, start: Start, on_gpu: Flags) -> Model:
    """Fit all clocks at once, from their first lines on."""
    when = medians(ends.local + start.added(ends.rank, ends.local), ends.row)
    ends = ends.of_rows(np.argsort(when, kind="stable"))
    model = _model(ends, start, np.sort(when, kind="stable"), on_gpu)
    few = ends.of_rows(ends.tying(start.unit)) if _many(start) else ends
    few = few.thinned(MOST, LEAST) if few.rows else ends
    if _many(start):
        model.pooled, model.gpu_var, model.lag_var, model.wave_var = True, 0.0, 0.0, 0.0
    if few is not ends:
        _show(model, few, start)
    model.prepare()
    model.settle()
    model.pool()
    model = _grown(model)
    model.pool()
    learn_constants(model)
    if few is not ends:
        _show(model, ends, start)
        model.prepare()
        if model.pooled:
            model.constants()
        else:
            model.settle(6)
    model.spans = spans(model)
    return model


def _grown(model: Model) -> Model:
    """Let clocks bend and step as ends say that are one per clock and instance: of ranks of a host
    none bends or steps by itself."""
    few = model.united()
    if few.ends.rows:
        few.settle()
        few.pool()
        few = grown(few)
    one = model.copied()
    one.bend_var, one.coef = few.bend_var, few.coef
    one.steps, one.height, one.uneven = few.steps, few.height, True
    one.prepare()
    one.settle()
    return without_idle(one)


def _many(start: Start) -> bool:
    """Whether ranks are so many that what each is constantly off is not fitted with the clocks."""
    return len(start.unit) > MANY


def _model(ends: Ends, start: Start, when: Floats, on_gpu: Flags) -> Model:
    units = int(start.unit.max()) + 1
    lead = np.unique(start.unit, return_index=True)[1]
    span = float(when[0]) - 1, float(when[-1]) + 1
    cells = int(ends.cell.max()) + 1
    return Model(
        ends=ends,
        base=ends.local + start.added(ends.rank, ends.local),
        when=when,
        span=span,
        unit=start.unit,
        fixed=np.isin(np.arange(units), start.unit[sorted(start.roots.values())]),
        on_gpu=on_gpu,
        slope=-start.drift[lead] * (span[1] - span[0]) / 2,
        coef=np.zeros((units, FUNCTIONS)),
        gpu=np.zeros(len(start.unit)),
        long=_alike(medians(ends.transfer, ends.cell)),
        sigma=np.full(cells, 3e4),
        effect=np.ones(cells),
        bend_var=np.zeros(units),
    )


def _show(model: Model, ends: Ends, start: Start) -> None:
    """Let the model see other ends."""
    model.ends, model.mid, model.last, model.calm = ends, None, None, np.zeros(0)
    model.base = ends.local + start.added(ends.rank, ends.local)
    model.when = medians(model.base, ends.row)


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
