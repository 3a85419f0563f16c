"""What a run's steps would take if something were otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt
from typing import NamedTuple

import duckdb
import numpy as np

from traceweave import words
from traceweave.arrays import Floats, Ints
from traceweave.replay.changes import Changed, Changer
from traceweave.replay.engine import replay
from traceweave.replay.graph import Graph, graph_of
from traceweave.replay.lookups import numbered
from traceweave.replay.nodes import KINDS, Kind, Nodes, Sort
from traceweave.replay.path import Path, critical_path
from traceweave.replay.scenario import Scenario, parse
from traceweave.replay.steps import Windows, windows

TOGETHER = "all together"
"""What the answer to several scenarios at once is called."""

UNEXPLAINED = 0.01
"""From this share of the critical path on an answer says that no edge explains it."""

UNLIKE = 0.08
"""Of the gain: nothing takes as long again as recorded. Twice the 4 % by which an operator of
one rank differs between recordings of one process (benchmarks/planted)."""


class Share(NamedTuple):
    """How much of a path is whose and what."""

    rank: int
    kind: str
    what: str | None
    length: int
    """ns over all steps."""


@dataclass(frozen=True)
class Answer:
    """What replay says of one scenario; times are means over steps, ns."""

    scenario: str
    measured_step_ns: float
    predicted_step_ns: float
    bottleneck: str
    """What the critical path is then mostly made of."""
    note: str | None
    uncertainty_ns: float | None
    """By how much the gain may be off; None: one step does not tell."""
    ranks: Ints
    measured_by_rank: Floats
    predicted_by_rank: Floats
    shares: list[Share]
    """Of the critical path that there is then, longest first."""


class Model:
    """A run, ready to be replayed."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self.graph: Graph = graph_of(con)
        self._changer = Changer(con, self.graph)

    @cached_property
    def windows(self) -> Windows:
        """Return the windows of its steps."""
        return windows(self.graph)

    @cached_property
    def path(self) -> Path:
        """Return the critical path as measured."""
        graph = self.graph
        return critical_path(graph, graph.nodes, graph.edges)

    @cached_property
    def unexplained(self) -> float:
        """Return the share of the critical path that is a delay of the device without a cause."""
        total = int(self.path.length.sum())
        delayed = int(self.path.length[self.path.kind == Kind.DELAYED].sum())
        return delayed / total if total else 0.0

    @cached_property
    def measured(self) -> float:
        """Return the mean step as measured; replayed unchanged it takes as long."""
        return self.windows.mean(self.graph.nodes)

    @cached_property
    def bottleneck(self) -> str:
        """Return what the critical path as measured is mostly made of."""
        return bottleneck(path_shares(self.graph, self.path))

    @cached_property
    def note(self) -> str | None:
        """Return how much of the critical path no edge explains, where that is worth saying."""
        said = []
        if self.unexplained >= UNEXPLAINED:
            share = words.percent(self.unexplained)
            said.append(f"{share} of the critical path is delay that no edge explains")
        if self.unfollowed >= UNEXPLAINED:
            share = words.percent(self.unfollowed)
            said.append(f"nothing is known to wait for {share} of the collectives")
        return f"{'; '.join(said)}; see replay_quality" if said else None

    @cached_property
    def unfollowed(self) -> float:
        """Return the share of the host's collectives that no operator is known to wait for."""
        parts = self.graph.parts
        calls = sum(len(part.instance) for part in parts) + len(self.graph.lone)
        return sum(part.facts["unfollowed"] for part in parts) / max(calls, 1)

    def uncertainty(self, after: Nodes) -> float | None:
        """Return by how much a recording made after the fix may show another gain, ns: twice the
        standard error of the difference between two means of as many such steps, what the clocks
        cannot tell, the share of the gain that rests on edges which are missing, and UNLIKE of it.

        None for a run of fewer than two steps.
        """
        before = self.windows.by_step(self.graph.nodes)[1]
        left = self.windows.by_step(after)[1]
        if len(left) < 2:
            return None
        steps = 2 * 2**0.5 * standard_error(left)
        resolution = self.graph.instances["resolution"]
        clocks = (
            float(np.median(resolution)) if len(resolution) and len(self.graph.parts) > 1 else 0
        )
        gain = abs(float((before - left).mean()))
        missing = (self.unexplained + self.unfollowed) * gain
        return float(np.linalg.norm([steps, clocks, missing, UNLIKE * gain]))

    def parsed(self, text: str) -> tuple[Scenario, ...]:
        """Return the scenarios that a text asks for. Raises UsageError."""
        return parse(text, self.graph.names.comm_ops)

    def step(self, text: str) -> tuple[float, float | None]:
        """Return the mean step that a scenario gives and its uncertainty, ns, and no more.

        Raises UsageError for one that makes no sense or selects nothing.
        """
        after = self._replayed(self.changed(*self.parsed(text)))
        return self.windows.mean(after), self.uncertainty(after)

    def answers(self, texts: Sequence[str]) -> list[Answer]:
        """Return what each scenario gives alone and, if there are several, all of them at once."""
        wanted = [self.parsed(text) for text in texts]
        found = [self.answer(*scenarios) for scenarios in wanted]
        if len(wanted) > 1:
            together = self.answer(*(s for scenarios in wanted for s in scenarios))
            found.append(replace(together, scenario=TOGETHER))
        return found

    def changed(self, *scenarios: Scenario) -> Changed:
        """Return the graph with all scenarios at once."""
        changed = Changed(self.graph.nodes, self.graph.edges)
        for scenario in scenarios:
            changed = self._changer.apply(changed, scenario)
        return changed

    def _replayed(self, changed: Changed) -> Nodes:
        """Return the nodes of a changed graph as they then start."""
        graph, nodes = self.graph, changed.nodes
        same = changed.edges is graph.edges and nodes.launch is graph.nodes.launch
        # what depends on what is the same, so the stretches are too
        return nodes.with_(start=replay(nodes, changed.edges, graph.runs if same else None))

    def answer(self, *scenarios: Scenario) -> Answer:
        """Return what all scenarios at once give.

        Raises UsageError for one that selects nothing.
        """
        graph = self.graph
        changed = self.changed(*scenarios)
        after = self._replayed(changed)
        shares = path_shares(graph, critical_path(graph, after, changed.edges))
        ranks, by_rank = self.windows.by_rank(graph.nodes)
        return Answer(
            "; ".join(scenario.text for scenario in scenarios),
            self.measured,
            self.windows.mean(after),
            bottleneck(shares),
            self.note,
            self.uncertainty(after),
            ranks,
            by_rank,
            self.windows.by_rank(after)[1],
            shares,
        )


def standard_error(steps: Floats) -> float:
    """Return that of the mean of steps that may drift: of single steps, or, where it is larger, by
    batch means, each of sqrt(n) steps in a row (Flegal and Jones, Annals of Statistics 2010)."""
    size = isqrt(len(steps))
    batches = len(steps) // size
    means = steps[len(steps) - batches * size :].reshape(batches, size).mean(axis=1)
    return max(float(np.std(one, ddof=1) / np.sqrt(len(one))) for one in (steps, means))


def path_shares(graph: Graph, path: Path) -> list[Share]:
    """Return how much of the path is whose and what, longest first."""
    keys = graph.nodes.rank[path.node], path.kind, what_of(graph, path.node, path.kind)
    number, count = numbered(*keys)
    length = np.bincount(number, path.length, minlength=count).astype(np.int64)
    order = np.argsort(-length, kind="stable")
    first = np.unique(number, return_index=True)[1][order]
    texts = (*texts_of(graph), None)
    rows = zip(*(key[first].tolist() for key in keys), length[order].tolist(), strict=True)
    return [Share(rank, KINDS[kind], texts[what], ns) for rank, kind, what, ns in rows]


def texts_of(graph: Graph) -> tuple[str, ...]:
    """Return the sorts of work that there are: classes of kernels, then collectives."""
    return (*graph.names.classes, *graph.names.comm_ops)


def what_of(graph: Graph, node: Ints, kind: Ints) -> Ints:
    """Return what sort of work nodes are, given what they are taken as: a place in texts_of, -1:
    their kind says it all."""
    nodes, names = graph.nodes, graph.names
    ops = {op: n for n, op in enumerate(names.comm_ops, len(names.classes))}
    of_instance = np.array([ops[op] for op in graph.instances["op"].tolist()] + [-1], np.int64)
    is_class = np.isin(nodes.sort[node], (Sort.COMPUTE, Sort.MEMORY))
    is_class &= np.isin(kind, (Kind.COMPUTING, Kind.COPYING))
    of_op = np.where(kind == Kind.TRANSFERRING, of_instance[nodes.instance[node]], -1)
    return np.where(is_class, nodes.class_[node], of_op)


def bottleneck(shares: Sequence[Share]) -> str:
    """Say what a path is mostly made of."""
    if not shares:
        return "nothing"
    rank, kind, what, length = shares[0]
    total = max(sum(share.length for share in shares), 1)
    named = f"{kind} ({what})" if what else kind
    return f"{named} of rank {rank}, {words.percent(length / total)} of the path"
