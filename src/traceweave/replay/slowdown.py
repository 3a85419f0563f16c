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

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.replay.engine import Lengths, Runs, lengths, run_ends, runs_of
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import (
    ARRIVAL,
    BARRIER,
    CALL,
    COMMUNICATION,
    COMPUTE,
    FREE,
    MEMORY,
    TRANSFER,
    Edges,
    Nodes,
)

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


class Steps:
    """The steps of a run, each by itself and without delays."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        step = _steps(graph)
        self.nodes, self.edges = _apart(graph, step)
        self.runs: Runs = runs_of(self.nodes, self.edges)
        self.ops = np.flatnonzero((step >= 0) & (self.nodes.sort < CALL))
        self.steps = np.unique(step[self.ops])
        first = self.runs.first
        self.device_runs = np.flatnonzero((step[first] >= 0) & (self.nodes.sort[first] < CALL))
        self.step_of_run = np.searchsorted(self.steps, step[first[self.device_runs]])

    def lengths(self, length: Ints) -> Lengths:
        """Return the lengths of runs with these of nodes."""
        return lengths(self.nodes.with_(length=length), self.runs)

    def times(self, of: Lengths) -> Floats:
        """Return how long each step takes with these lengths of runs."""
        # without delays ops of a stream end in their order, so a run ends when its last one does
        end = run_ends(self.nodes, self.runs, of)[self.device_runs]
        latest = np.zeros(len(self.steps), np.int64)
        np.maximum.at(latest, self.step_of_run, end)
        return latest.astype(np.float64)

    @cached_property
    def ideal(self) -> Ints:
        """Return the lengths of an ideal step's nodes."""
        nodes = self.nodes
        length = nodes.length.astype(np.int64)
        mine = np.zeros(len(length), bool)
        mine[self.ops] = True
        computes = mine & np.isin(nodes.sort, (COMPUTE, MEMORY))
        rows = np.flatnonzero(computes)
        _, kind = np.unique(nodes.name[rows], return_inverse=True)
        mean = np.bincount(kind, length[rows]) / np.bincount(kind)
        length[rows] = np.rint(mean[kind]).astype(np.int64)
        moves = np.flatnonzero(mine & np.isin(nodes.sort, (TRANSFER, COMMUNICATION)))
        what = self.graph.instances
        of_op = np.append(np.unique(what["op"].astype(str), return_inverse=True)[1], -1)
        size = np.append(what["bytes"], -1)
        instance = nodes.instance[moves]
        keys = np.stack([nodes.name[moves], of_op[instance], size[instance]])
        _, kind = np.unique(keys, axis=1, return_inverse=True)
        for one in np.unique(kind).tolist():
            of = moves[kind == one]
            length[of] = round(float(np.median(nodes.length[of])))
        return length


def slowdowns(graph: Graph) -> Iterator[Row]:
    """Yield the slowdown of the job, of its steps, and of parts of its work; nothing without
    steps."""
    steps = Steps(graph)
    if not len(steps.steps):
        return
    measured, ideal = steps.nodes.length, steps.ideal
    as_measured, as_ideal = steps.lengths(measured), steps.lengths(ideal)
    took, best = steps.times(as_measured), steps.times(as_ideal)
    slowdown = float(took.mean() / best.mean())
    yield Row("job", slowdown=slowdown, step_ns=float(took.mean()), ideal_ns=float(best.mean()))
    for step, own, its_best in zip(steps.steps.tolist(), took, best, strict=True):
        yield Row(
            "step",
            step=step,
            slowdown=float(own / its_best),
            step_ns=float(own),
            ideal_ns=float(its_best),
        )

    places = places_of(graph)
    # a run is of one rank: those of barriers are at -1, and take no time
    rank = _positions(graph)[steps.runs.first]

    def left(chosen: Flags) -> float:
        """Return the slowdown if only these runs are as measured."""
        return float(steps.times(as_measured.where(chosen, as_ideal)).mean() / best.mean())

    def left_of(work: Flags) -> float:
        """Return the slowdown if only these nodes are as measured."""
        of = steps.lengths(np.where(work, measured, ideal))
        return float(steps.times(of).mean() / best.mean())

    def removed(chosen: Flags) -> float | None:
        """Return the share of the slowdown that is gone if these runs are ideal."""
        if slowdown < LEAST:
            return None
        without = steps.times(as_ideal.where(chosen, as_measured)).mean()
        return float((took.mean() - without) / (took.mean() - best.mean()))

    of_pipeline = {p: left(_at(rank, places.pipeline == p)) for p in np.unique(places.pipeline)}
    of_stage = {s: left(_at(rank, places.stage == s)) for s in np.unique(places.stage)}
    scores = [
        min(of_pipeline[p], of_stage[s]) if len(of_stage) > 1 else of_pipeline[p]
        for p, s in zip(places.pipeline, places.stage, strict=True)
    ]
    for one, score in zip(graph.ranks, scores, strict=True):
        yield Row("rank", rank=one, slowdown=score)
    if len(of_stage) > 1:
        for stage, score in of_stage.items():
            yield Row("stage", what=str(stage), slowdown=score)
        last = _at(rank, places.stage == places.stage.max())
        yield Row(
            "last stage", what=str(places.stage.max()), slowdown=left(last), share=removed(last)
        )
    count = -(-len(scores) * int(WORST * 100) // 100)
    worst = sorted(range(len(scores)), key=lambda at: (-scores[at], at))[:count]
    chosen = np.isin(np.arange(len(scores)), worst)
    yield Row(
        "worst ranks",
        what=", ".join(str(graph.ranks[at]) for at in worst),
        slowdown=left(_at(rank, chosen)),
        share=removed(_at(rank, chosen)),
    )
    for scope, what, of in _types(graph, steps):
        yield Row(scope, what=what, slowdown=left_of(of))


def _at(rank: Ints, chosen: Flags) -> Flags:
    found: Flags = np.append(chosen, False)[rank]
    return found


def _positions(graph: Graph) -> Ints:
    """Return the position of each node's rank, -1 for none."""
    ranks = np.array(graph.ranks)
    rank = graph.nodes.rank
    place = np.minimum(np.searchsorted(ranks, rank), len(ranks) - 1)
    return np.where(ranks[place] == rank, place, -1)


def _types(graph: Graph, steps: Steps) -> Iterator[tuple[str, str, Flags]]:
    """Yield kinds of work: classes of kernels and operations of collectives, and long kernels."""
    nodes, names = steps.nodes, graph.names
    mine = np.zeros(len(nodes), bool)
    mine[steps.ops] = True
    computes = mine & np.isin(nodes.sort, (COMPUTE, MEMORY))
    for number in np.unique(nodes.class_[computes]).tolist():
        yield "class", names.classes[number], computes & (nodes.class_ == number)
    moves = mine & np.isin(nodes.sort, (TRANSFER, COMMUNICATION))
    ops = np.append(graph.instances["op"].astype(str), "unmatched")
    for op in np.unique(ops[nodes.instance[moves]]).tolist():
        yield "collective", op, moves & (ops[nodes.instance] == op)
    total = np.bincount(nodes.name[computes], nodes.length[computes], minlength=len(names.names))
    for number in np.argsort(-total, kind="stable")[:MOST_NAMES].tolist():
        if total[number] > 0:
            yield "kernel", names.names[number], computes & (nodes.name == number)


def _steps(graph: Graph) -> Ints:
    """Return the step of each node; that of collectives is that of a member."""
    nodes = graph.nodes
    step = nodes.step.astype(np.int64)
    barriers = np.flatnonzero(nodes.sort == BARRIER)
    latest = np.full(len(graph.instances["number"]), -1)
    arrival = np.flatnonzero(nodes.sort == ARRIVAL)
    np.maximum.at(latest, nodes.instance[arrival], step[arrival])
    step[barriers] = latest[nodes.instance[barriers]]
    return step


def _apart(graph: Graph, step: Ints) -> tuple[Nodes, Edges]:
    """Return the graph without edges between steps, delays, and what the host takes."""
    nodes, edges = graph.nodes, graph.edges
    same = np.append(False, step[1:] == step[:-1]) & nodes.follows
    launched = (nodes.launch >= 0) & (step[nodes.launch] == step)
    zeros = np.zeros(len(nodes), np.int64)
    on_device = nodes.sort < CALL
    alone = nodes.with_(
        lag=np.where(same, 0, FREE),
        delay=zeros,
        loading=zeros,
        launch=np.where(launched, nodes.launch, -1),
        launch_lag=zeros,
        length=np.where(on_device, nodes.length, 0),
    )
    kept = edges.where(step[edges.source] == step[edges.target])
    return alone, Edges(kept.source, kept.target, np.zeros(len(kept), np.int64), kept.kind)


def places_of(graph: Graph) -> Places:
    """Return pipelines and stages: who sends to whom, in the order of their ranks.

    Without messages every rank is a pipeline by itself.
    """
    count = len(graph.ranks)
    pipeline = np.arange(count)
    nodes = graph.nodes
    arrival = np.flatnonzero(nodes.sort == ARRIVAL)
    rank = _positions(graph)[arrival]
    instance = nodes.instance[arrival]
    message = graph.instances["op"][instance] == "send_recv"
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
