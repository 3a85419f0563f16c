"""How much stragglers slow a job down, as "Understanding Stragglers in Large Model Training Using
What-if Analysis" (OSDI 2025) defines it.

Every step is replayed by itself, from work that waits for nothing on, without any delay: T. In the
ideal step each compute op takes the mean of its type over all ranks and steps, and each collective
the median transfer: T_ideal. The slowdown is mean T / mean T_ideal. That of some of the work is the
same with only this work as measured in an otherwise ideal step; that of a rank is the smaller one
of its pipeline's and its stage's. What fixing some ranks removes is told the other way round: they
alone are ideal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import Sort
from traceweave.replay.single_steps import Steps, positions

LEAST = 1.03
"""A job that is slowed down by less has no stragglers worth dividing among."""

WORST = 0.03
"""Share of the ranks that are the worst ones."""

MOST_NAMES = 20
"""Kernels that are types of their own in the answer: those with most time."""


@dataclass(frozen=True)
class Places:
    """Where ranks are in the job."""

    pipeline: Ints
    """By position of the rank: ranks that pass activations on to each other."""
    stage: Ints


@dataclass(frozen=True)
class Row:
    """One slowdown."""

    scope: str
    what: str | None = None
    rank: int | None = None
    step: int | None = None
    slowdown: float | None = None
    share: float | None = None
    """What fixing it removes of the job's slowdown."""
    step_ns: float | None = None
    ideal_ns: float | None = None


class _Ops:
    """What the ops of steps are, and how long they take."""

    def __init__(self, graph: Graph, steps: Steps) -> None:
        nodes, self._names = graph.nodes, graph.names
        self._of = graph.instances
        self.measured = steps.length
        sort = nodes.sort[steps.ops]
        self._computes = np.flatnonzero((sort == Sort.COMPUTE) | (sort == Sort.MEMORY))
        self._moves = np.flatnonzero((sort == Sort.TRANSFER) | (sort == Sort.COMMUNICATION))
        computes = steps.ops[self._computes]
        self._name, self._class = nodes.name[computes], nodes.class_[computes]
        self._instance = nodes.instance[steps.ops[self._moves]]
        self._moved_by = nodes.name[steps.ops[self._moves]]
        self._is_send = sort[self._moves] == Sort.COMMUNICATION

    def ideal(self) -> Ints:
        """Return the lengths of all ops in an ideal step."""
        length = self.measured.copy()
        count = np.maximum(np.bincount(self._name), 1)
        mean = np.bincount(self._name, length[self._computes]) / count
        length[self._computes] = np.rint(mean).astype(np.int64)[self._name]
        of_op = np.append(np.unique(self._of["op"].astype(str), return_inverse=True)[1], -1)
        size = np.append(self._of["bytes"], -1)
        keys = np.stack(
            [self._moved_by, self._is_send, of_op[self._instance], size[self._instance]]
        )
        _, kind = np.unique(keys, axis=1, return_inverse=True)
        alike = np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))[:-1])
        for some in alike if len(kind) else ():
            moves = self._moves[some]
            length[moves] = round(float(np.median(length[moves])))
        return length

    def types(self) -> Iterator[tuple[str, str, Ints]]:
        """Yield scope, name and ops of types of work: classes of kernels and operations of
        collectives, and long kernels."""
        names = self._names
        for number in np.unique(self._class).tolist():
            yield "class", names.classes[number], self._computes[self._class == number]
        ops = np.append(self._of["op"].astype(str), "unmatched")[self._instance]
        for op in np.unique(ops).tolist():
            yield "collective", op, self._moves[ops == op]
        total = np.bincount(self._name, self.measured[self._computes])
        for number in np.argsort(-total, kind="stable")[:MOST_NAMES].tolist():
            if total[number] > 0:
                yield "kernel", names.names[number], self._computes[self._name == number]


class _Job:
    """The steps of a job where some of the work is as measured and the rest ideal."""

    def __init__(self, steps: Steps, measured: Ints, ideal: Ints) -> None:
        self._steps = steps
        self._measured, self._ideal = steps.takes(measured), steps.takes(ideal)
        self._longer = measured - ideal
        self.took, self.best = steps.times([self._measured, self._ideal])
        """How long each step takes in ns, all as measured and all ideal."""
        self.slowdown = float(self.took.mean() / self.best.mean())

    def with_ranks(self, cases: Iterable[Flags]) -> Iterator[float]:
        """Yield the slowdown for each case of the ranks that alone are as measured."""
        return self._left(map(self._only, cases))

    def with_ops(self, cases: Iterable[Ints]) -> Iterator[float]:
        """Yield the slowdown for each case of the ops that alone are as measured."""
        return self._left(self._ideal + self._steps.takes(self._longer[of], of) for of in cases)

    def removed(self, ranks: Flags) -> float | None:
        """Return the share of the slowdown that is gone if these ranks are ideal."""
        if self.slowdown < LEAST:
            return None
        [without] = self._steps.times([self._only(~ranks)])
        took = self.took.mean()
        return float((took - without.mean()) / (took - self.best.mean()))

    def _only(self, ranks: Flags) -> Ints:
        """Return how long runs take if these ranks alone are as measured."""
        return np.where(np.append(ranks, False)[self._steps.rank], self._measured, self._ideal)

    def _left(self, cases: Iterable[Ints]) -> Iterator[float]:
        for times in self._steps.times(cases):
            yield float(times.mean() / self.best.mean())


def slowdowns(graph: Graph) -> Iterator[Row]:
    """Yield the slowdown of the job, of its steps, and of parts of its work; nothing without
    steps."""
    steps = Steps(graph)
    if not len(steps.steps):
        return
    ops, places, ranks = _Ops(graph, steps), places_of(graph), graph.ranks
    # the nodes of a large run take gigabytes, and are not asked any more
    del graph
    job = _Job(steps, ops.measured, ops.ideal())
    took, best = float(job.took.mean()), float(job.best.mean())
    yield Row("job", slowdown=job.slowdown, step_ns=took, ideal_ns=best)
    for step, own, its_best in zip(steps.steps.tolist(), job.took, job.best, strict=True):
        yield Row(
            "step",
            step=step,
            slowdown=float(own / its_best),
            step_ns=float(own),
            ideal_ns=float(its_best),
        )
    yield from _of_ranks(job, places, ranks)
    kinds = list(ops.types())
    slower = job.with_ops(of for _, _, of in kinds)
    for (scope, what, _), its in zip(kinds, slower, strict=True):
        yield Row(scope, what=what, slowdown=its)


def _of_ranks(job: _Job, places: Places, ranks: Sequence[int]) -> Iterator[Row]:
    """Yield the slowdown of each rank, of the stages, and of the ranks with the largest."""
    pipelines, last = range(int(places.pipeline.max()) + 1), int(places.stage.max())
    of_pipeline = list(job.with_ranks(places.pipeline == p for p in pipelines))
    score = np.array(of_pipeline)[places.pipeline]
    of_stage: list[float] = []
    if last:
        of_stage = list(job.with_ranks(places.stage == s for s in range(last + 1)))
        score = np.minimum(score, np.array(of_stage)[places.stage])
    for one, its in zip(ranks, score.tolist(), strict=True):
        yield Row("rank", rank=one, slowdown=its)
    for stage, its in enumerate(of_stage):
        yield Row("stage", what=str(stage), slowdown=its)
    if last:
        share = job.removed(places.stage == last)
        yield Row("last stage", what=str(last), slowdown=of_stage[last], share=share)
    count = -(-len(score) * int(WORST * 100) // 100)
    worst = np.argsort(-score, kind="stable")[:count]
    chosen = np.isin(np.arange(len(score)), worst)
    [its] = job.with_ranks([chosen])
    yield Row(
        "worst ranks",
        what=", ".join(str(ranks[at]) for at in worst.tolist()),
        slowdown=its,
        share=job.removed(chosen),
    )


def places_of(graph: Graph) -> Places:
    """Return pipelines and stages: who sends to whom, in the order of their ranks.

    Without messages of a pipeline every rank is one by itself.
    """
    count = len(graph.ranks)
    pipeline = np.arange(count)
    nodes = graph.nodes
    arrival = np.flatnonzero(nodes.sort == Sort.ARRIVAL)
    rank = positions(graph, nodes.rank[arrival])
    instance = nodes.instance[arrival]
    message = graph.instances["is_staged"][instance] > 0
    order = np.argsort(instance[message], kind="stable")
    first = np.flatnonzero(np.diff(instance[message][order], append=-1) == 0)
    pairs = np.stack([rank[message][order][first], rank[message][order][first + 1]])
    for one, other in np.unique(pairs, axis=1).T.tolist():
        low, high = sorted((int(pipeline[one]), int(pipeline[other])))
        pipeline[pipeline == high] = low
    _, pipeline = np.unique(pipeline, return_inverse=True)
    stage = np.zeros(count, np.int64)
    for one in np.unique(pipeline):
        mine = np.flatnonzero(pipeline == one)
        stage[mine] = np.arange(len(mine))
    return Places(pipeline, stage)
