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
from typing import NamedTuple

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.interrupts import go_on
from traceweave.medians import group_medians
from traceweave.replay.engine import Since, runs_of, times
from traceweave.replay.graph import Graph
from traceweave.replay.lookups import numbered, places, positions
from traceweave.replay.nodes import FREE, Edge, Edges, Nodes, Sort

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


class Row(NamedTuple):
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


class Steps:
    """The steps of a run, as runs of nodes."""

    def __init__(self, graph: Graph) -> None:
        step = steps_of(graph)
        nodes, edges = apart(graph, step)
        self._nodes, self._runs = nodes, runs_of(nodes, edges)
        first = self._runs.first
        self.rank = positions(np.array(graph.ranks), nodes.rank[first])
        """Of each run, as a position; -1 of barriers, which take no time."""
        self.ops = np.flatnonzero((step >= 0) & (nodes.sort < Sort.CALL))
        """Nodes whose lengths count."""
        self.length = nodes.length[self.ops]
        """Theirs, as measured."""
        self._run = self._runs.of[self.ops]
        on_device = np.flatnonzero((step[first] >= 0) & (nodes.sort[first] < Sort.CALL))
        self._by_step = on_device[np.argsort(step[first[on_device]], kind="stable")]
        self.steps, self._begins = np.unique(step[first[self._by_step]], return_index=True)

    def takes(self, length: Ints, ops: Ints | slice = slice(None)) -> Ints:
        """Return how long each run takes, if (some of) `ops` take so long, and others nothing."""
        # sums of integers far below 2^53 are exact
        return np.bincount(self._run[ops], length, minlength=len(self.rank)).astype(np.int64)

    def times(self, takes: Iterable[Ints]) -> Iterator[Floats]:
        """Yield how long each step takes, for every case: how long each run takes."""
        for lengths in takes:
            go_on()
            # what launches a run begins one itself
            _, ends = times(self._nodes, self._runs, Since(lengths, lengths))
            # without delays the last op of a run is the one that ends last
            yield np.maximum.reduceat(ends[self._by_step], self._begins).astype(np.float64)


def steps_of(graph: Graph) -> Ints:
    """Return the step of each node; that of collectives is that of a member."""
    nodes = graph.nodes
    step = nodes.step.astype(np.int64)
    barriers = np.flatnonzero(nodes.sort == Sort.BARRIER)
    latest = np.full(len(graph.instances["number"]), -1)
    arrival = np.flatnonzero(nodes.sort == Sort.ARRIVAL)
    np.maximum.at(latest, nodes.instance[arrival], step[arrival])
    step[barriers] = latest[nodes.instance[barriers]]
    return step


def apart(graph: Graph, step: Ints) -> tuple[Nodes, Edges]:
    """Return the graph without edges between steps, delays, and what the host takes."""
    nodes, edges = graph.nodes, graph.edges
    same = np.append(False, step[1:] == step[:-1]) & nodes.follows
    lag = np.where(same, np.int32(0), np.int32(FREE))
    launch = nodes.launch.copy()
    for block in nodes.blocks():
        launch[block][step[launch[block]] != step[block]] = -1
    kept = edges.where(step[edges.source] == step[edges.target])
    # operators that ask for collectives begin their runs, so that what runs take are sums
    asks = np.unique(launch[launch >= 0]) if not graph.has_gpu else np.empty(0, np.int64)
    asks = asks[same[asks]]
    source, target = np.append(kept.source, asks - 1), np.append(kept.target, asks)
    return nodes.with_(lag=lag, launch=launch), Edges.of(source, target, 0 * source, Edge.HANDOVER)


class _Ops:
    """What the ops of steps are, and how long they take."""

    def __init__(self, graph: Graph, steps: Steps) -> None:
        nodes, self._names = graph.nodes, graph.names
        self.measured = steps.length
        sort = nodes.sort[steps.ops]
        self._computes = np.flatnonzero(np.isin(sort, (Sort.COMPUTE, Sort.MEMORY)))
        self._moves = np.flatnonzero(np.isin(sort, (Sort.TRANSFER, Sort.COMMUNICATION)))
        computes, moves = steps.ops[self._computes], steps.ops[self._moves]
        self._name, self._class = nodes.name[computes], nodes.class_[computes]
        of, instance = graph.instances, nodes.instance[moves]
        self._op = np.append(of["op"].astype(str), "unmatched")[instance]
        op = np.unique(self._op, return_inverse=True)[1]
        size, is_send = (
            np.append(of["bytes"], -1)[instance],
            sort[self._moves] == Sort.COMMUNICATION,
        )
        self._alike, _ = numbered(nodes.name[moves], is_send, op, size)

    def ideal(self) -> Ints:
        """Return the lengths of all ops in an ideal step."""
        length = self.measured.copy()
        count = np.maximum(np.bincount(self._name), 1)
        mean = np.bincount(self._name, length[self._computes]) / count
        length[self._computes] = np.rint(mean).astype(np.int64)[self._name]
        if len(self._moves):
            length[self._moves] = np.rint(group_medians(length[self._moves], self._alike))
        return length

    def types(self) -> Iterator[tuple[str, str, Ints]]:
        """Yield scope, name and ops of types of work: classes of kernels and operations of
        collectives, and long kernels."""
        for number in np.unique(self._class).tolist():
            yield "class", self._names.classes[number], self._computes[self._class == number]
        for op in np.unique(self._op).tolist():
            yield "collective", op, self._moves[self._op == op]
        total = np.bincount(self._name, self.measured[self._computes])
        for number in np.argsort(-total, kind="stable")[:MOST_NAMES].tolist():
            if total[number] > 0:
                yield "kernel", self._names.names[number], self._computes[self._name == number]


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
        for took in self._steps.times(cases):
            yield float(took.mean() / self.best.mean())


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
    each = np.stack([job.took / job.best, job.took, job.best], axis=1).tolist()
    for step, (slowdown, own, its_best) in zip(steps.steps.tolist(), each, strict=True):
        yield Row("step", step=step, slowdown=slowdown, step_ns=own, ideal_ns=its_best)
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
    named = ", ".join(str(ranks[at]) for at in worst.tolist())
    yield Row("worst ranks", what=named, slowdown=its, share=job.removed(chosen))


def places_of(graph: Graph) -> Places:
    """Return pipelines and stages: who sends to whom, in the order of their ranks.

    Without messages of a pipeline every rank is one by itself.
    """
    pipeline = np.arange(len(graph.ranks))
    nodes = graph.nodes
    arrival = np.flatnonzero(nodes.sort == Sort.ARRIVAL)
    arrival = arrival[graph.instances["is_staged"][nodes.instance[arrival]] > 0]
    arrival = arrival[np.argsort(nodes.instance[arrival], kind="stable")]
    rank, instance = positions(np.array(graph.ranks), nodes.rank[arrival]), nodes.instance[arrival]
    both = np.flatnonzero(instance[1:] == instance[:-1])
    for one, other in np.unique(np.stack([rank[both], rank[both + 1]]), axis=1).T.tolist():
        low, high = sorted((int(pipeline[one]), int(pipeline[other])))
        pipeline[pipeline == high] = low
    pipeline, _ = numbered(pipeline)
    return Places(pipeline, places(np.arange(len(pipeline)), pipeline))
