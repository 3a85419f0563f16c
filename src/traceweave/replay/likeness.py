"""How long ranks take for the same, and by what factor one has to change to be like the others."""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.lookups import numbered, places, positions
from traceweave.replay.nodes import FAR, Sort
from traceweave.replay.scenario import Scenario
from traceweave.replay.slowdown import places_of

AS_A_WHOLE = frozenset({"compute", "copy", "data_loading"})
"""Kinds of which less of one thing may stand for more of another. Launching is one where ranks make
calls unequally often: a pause counts whatever call or operator follows it."""

_UNKNOWN_STAGE = """
SELECT DISTINCT rank FROM collectives
WHERE collective_id IS NULL AND op IN ('send', 'recv', 'send_recv')
    AND coalesce(group_id NOT IN (SELECT group_id FROM message_rings), TRUE)
"""

_QUANTILES = {"median": 0.5, "fastest": 0.0}
"""What of the others' times is usual; of an even number the lower one: of two ranks the slow one is
to be like the other."""


class Likeness:
    """What nodes of a run can be compared with."""

    def __init__(self, con: duckdb.DuckDBPyConnection, graph: Graph) -> None:
        self._con, self._graph = con, graph

    def factors(
        self, old: Ints, kind: str, sorts: Ints, chosen: Flags, s: Scenario
    ) -> tuple[Ints, Floats]:
        """Return the chosen nodes, of some sorts, that others can be compared with, and by what
        factor each has to change to be like those."""
        nodes, like = self._graph.nodes, s.like or "median"
        step, as_a_whole = nodes.step, kind in AS_A_WHOLE
        rows, thing, who = self._transfers() if kind == "transfer" else self._work(kind, sorts)
        if s.steps is not None:
            named = np.isin(step[rows], list(s.steps))
            rows, thing, who = rows[named], thing[named], who[named]
        if like == "mean":
            # what is divided is the work of the chosen, and stays the same
            rows, thing, who = (part[chosen[rows]] for part in (rows, thing, who))
            if as_a_whole and s.steps is None:
                thing = one_by_one(thing, who, step[rows], nodes.start[rows])
        wanted, values = chosen[rows], old[rows]
        owner, owners = numbered(who)
        stages = None
        if like == "mean" and as_a_whole:
            # the first peer of each stands for its stage
            stages = self._peers(np.unique(who)).argmax(axis=1)
            if s.steps is not None:
                stretch = self._stretches(who)[rows]
                return rows, divided(values, thing, owner, step[rows], stretch, stages)
        # steps that are named one by one: ranks late by turns are alike in all of them together
        thing, _ = numbered(thing) if s.steps is None else numbered(thing, step[rows])
        to_change: Flags | None = None
        # what transfers belong to is no rank
        if kind != "transfer" and s.ranks is not None and not set(self._graph.ranks) <= s.ranks:
            to_change = np.isin(np.unique(who), list(s.ranks))
        compared = factors(values, thing, owner, like, stages, to_change)
        alone = np.isnan(compared)[thing, owner]
        if like == "mean" or s.steps is not None:
            factor = compared[thing, owner]
        else:
            known = np.nan_to_num(compared, nan=1.0)
            factor = in_steps(values, thing, owner, step[rows], known, like)
        alone &= as_a_whole or kind == "launch"
        if like != "mean" and (wanted & alone).any():
            peers = self._peers(np.unique(who))
            work = Work(values, thing, owner, owners, step[rows], self._stretches(who)[rows])
            for one in np.unique(owner[wanted & alone]).tolist():
                mine, things = alone & (owner == one), np.isnan(compared[:, one])
                factor[mine] = work.factors(one, things, peers[one], like, s.steps is None)[mine]
        np.nan_to_num(factor, copy=False, nan=1)
        return rows[wanted], factor[wanted]

    def _transfers(self) -> tuple[Ints, Ints, Ints]:
        """Return transfers, what of each is alike, and whose it is: its group's."""
        nodes, of = self._graph.nodes, self._graph.instances
        rows = np.flatnonzero((nodes.sort == Sort.TRANSFER) & (nodes.instance >= 0))
        op = np.unique(of["op"].astype(str), return_inverse=True)[1]
        instance = nodes.instance[rows]
        return rows, numbered(op, of["bytes"], of["size"])[0][instance], of["group_id"][instance]

    def _work(self, kind: str, sorts: Ints) -> tuple[Ints, Ints, Ints]:
        """Return nodes of some sorts, what of each is alike, and whose it is: its rank's."""
        nodes = self._graph.nodes
        rows = np.flatnonzero(np.isin(nodes.sort, sorts))
        by_name = kind in ("compute", "copy", "launch")
        name = np.maximum(nodes.name[rows], 0) if by_name else np.zeros(len(rows), np.int64)
        # a call is the same whether or not it found anything to wait for
        sort = np.where(nodes.sort[rows] == Sort.ENTER, Sort.CALL, nodes.sort[rows])
        return rows, name * 16 + sort.astype(np.int64), nodes.rank[rows]

    def _stretches(self, who: Ints) -> Ints:
        """Return for each node how many of the collectives that all these ranks share its rank had
        come to: between two of them what ranks do can be compared."""
        start, ranks = self._graph.nodes.start, np.unique(who)
        parts = [part for part in self._graph.parts if part.rank in ranks]
        instances = len(self._graph.instances["number"])
        count, first = np.zeros(instances, np.int64), np.full(instances, FAR)
        for part in parts:
            count += np.bincount(part.instance, minlength=instances)
            np.minimum.at(first, part.instance, start[part.arrival])
        found = np.zeros(len(start), np.int64)
        for part in parts:
            shared = count[part.instance] == len(ranks)
            in_order = np.argsort(first[part.instance[shared]], kind="stable")
            at = np.maximum.accumulate(start[part.arrival[shared][in_order]])
            found[part.nodes] = np.searchsorted(at, start[part.nodes], side="right")
        return found

    def _peers(self, ranks: Ints) -> Flags:
        """Return for each of these ranks which of them are in the same stage of a pipeline: others
        have other work.

        Where a rank's messages are not matched it is not known who is, and only the rank itself is.
        """
        stage = places_of(self._graph).stage[positions(np.array(self._graph.ranks), ranks)]
        unmatched = [rank for (rank,) in self._con.execute(_UNKNOWN_STAGE).fetchall()]
        same, itself = stage[:, None] == stage, np.eye(len(ranks), dtype=bool)
        return np.where(np.isin(ranks, unmatched)[:, None], itself, same)


def factors(
    values: Ints, thing: Ints, owner: Ints, like: str, shared: Ints | None = None,
    named: Flags | None = None,
) -> Floats:  # fmt: skip
    """Return for each thing and owner the factor that makes what the owner takes that of its peers;
    NaN: nobody else has it as often, which may be never.

    The same thing is compared among owners that have it as often; among those that have it at all,
    where the owners of each number in `shared` share their work. Nobody becomes slower by being
    like others, unless the same work is divided evenly. Owners that are `named` are to be like
    others: what only they have as often nobody else has.
    """
    things, owners = int(thing.max(initial=-1)) + 1, int(owner.max(initial=-1)) + 1
    cell, of_owner = thing * owners + owner, np.tile(np.arange(owners), things)
    count = np.bincount(cell, minlength=things * owners)
    total = np.bincount(cell, values, minlength=things * owners)
    alike = count if shared is None else np.where(count > 0, shared[of_owner] + 1, 0)
    peers, _ = numbered(np.repeat(np.arange(things), owners), alike)
    number = np.bincount(peers)
    compared = number > 1
    if like == "mean":
        usual = np.bincount(peers, total) / number
    else:
        place = np.floor((number - 1) * _QUANTILES[like]).astype(np.int64)
        usual = total[np.lexsort((total, peers))][np.cumsum(number) - number + place]
        if named is not None:
            compared &= np.bincount(peers, ~named[of_owner]) > 0
    factor = np.where(total > 0, usual[peers] / np.maximum(total, 1e-9), 1)
    factor = factor if like == "mean" else np.minimum(factor, 1)
    return np.where(compared[peers], factor, np.nan).reshape(things, owners)


def divided(
    values: Ints, thing: Ints, owner: Ints, step: Ints, stretch: Ints, shared: Ints
) -> Floats:
    """Return the factor of each row where each thing is divided evenly, step by step, among the
    owners of the same number in `shared` that have it in any step: by turns they have it at all.

    What an owner has nothing of in a step makes longer what it has in the same stretch, or step.
    """
    (thing, things), (in_step, steps) = numbered(thing), numbered(step)
    in_stretch, _ = numbered(in_step, stretch)
    owners, mates = len(shared), shared[:, None] == shared
    cell = (thing * steps + in_step) * owners + owner
    own = np.bincount(cell, values, minlength=things * steps * owners)
    own = own.reshape(things, steps, owners)
    has: Flags = np.sum(own > 0, axis=1) > 0
    number = np.maximum(has @ mates.astype(np.int64), 1)
    evenly = own @ mates.astype(np.float64) / number[:, None, :]
    factor: Floats = np.where(own > 0, evenly / np.maximum(own, 1e-9), 1)[thing, in_step, owner]
    missing: Flags = (own == 0) & (evenly > 0) & has[:, None, :]
    for one in np.unique(np.nonzero(missing)[2]).tolist():
        lacks = (has[:, one, None] & (own[:, :, one] == 0))[thing, in_step]
        given = values * (lacks & mates[owner, one]) / number[thing, owner]
        mine = owner == one
        for place in (in_stretch, in_step):
            kept = np.bincount(place[mine], values[mine] * factor[mine], minlength=len(given))
            more = np.bincount(place, given, minlength=len(given))
            factor[mine] *= (1 + more / np.maximum(kept, 1e-9))[place[mine]]
            given = np.where(kept[place] > 0, 0, given)
    return factor


def one_by_one(thing: Ints, owner: Ints, step: Ints, start: Ints) -> Ints:
    """Return a number for each thing, and, of what all owners have as often in every step, for each
    place among the same."""
    (in_step, steps), (thing, things), (owner, owners) = map(numbered, (step + 1, thing, owner))
    place = places(start, thing, owner, in_step)
    cells = np.bincount(
        (thing * owners + owner) * steps + in_step, minlength=things * owners * steps
    )
    count = cells.reshape(things, owners, steps)[:, :, (0 if np.all(step >= 0) else 1) :]
    alike = np.all(count == count[:, :1, :1], axis=(1, 2))
    return thing * (int(place.max(initial=0)) + 1) + np.where(alike[thing], place, 0)


def in_steps(
    values: Ints, thing: Ints, owner: Ints, step: Ints, factor: Floats, like: str
) -> Floats:
    """Return the factor of each row where what an owner takes longer is taken from the steps in
    which it does: one that is slow from some step on is like the others before.

    `factor` is that of each thing and owner over all steps, which says how much there is to take.
    """
    in_step, steps = numbered(step + 1)
    things, owners = factor.shape
    cell = thing * owners + owner
    own, longer = (np.zeros((steps, things * owners)) for _ in range(2))
    for place in range(steps):
        rows = in_step == place
        total = np.bincount(cell[rows], values[rows], minlength=things * owners)
        there = np.bincount(cell[rows], minlength=things * owners) > 0
        beside = np.where(there, total, np.nan).reshape(things, owners)
        some = there.reshape(things, owners).any(axis=1)
        usual = np.zeros(things)
        usual[some] = lower_quantiles(beside[some], _QUANTILES[like])
        own[place] = total
        longer[place] = np.maximum(total - np.repeat(usual, owners), 0)
    taken = own.sum(axis=0) * (1 - factor.ravel())
    there = longer.sum(axis=0)
    share = np.where(
        there > 0, longer / np.maximum(there, 1e-9), own / np.maximum(own.sum(0), 1e-9)
    )
    found: Floats = 1 - np.minimum(taken * share / np.maximum(own, 1e-9), 1)
    of_row: Floats = found[in_step, cell]
    return of_row


def lower_quantiles(values: Floats, share: float) -> Floats:
    """Return of each row, which has a number, the value of its numbers that this share of the
    others is not above: np.nanquantile(values, share, axis=1, method="lower"), which asks of each
    row alone.
    """
    place = np.floor((np.sum(~np.isnan(values), axis=1) - 1) * share).astype(np.int64)
    found: Floats = np.sort(values, axis=1)[np.arange(len(values)), place]  # NaN comes last
    return found


class Work:
    """What ranks have to do, of which some do parts more often than any other."""

    def __init__(
        self, values: Ints, thing: Ints, owner: Ints, owners: int, step: Ints, stretch: Ints
    ) -> None:
        """`stretch` numbers the stretches of a step, between moments that all owners share."""
        self._values, self._thing = values.astype(np.float64), thing
        self._owner, self._owners = owner, owners
        self._counts = step >= 0 if np.any(step >= 0) else np.ones(len(step), bool)
        in_step, self._steps = numbered(step + 1)
        self._stretch, stretches = numbered(in_step, stretch)
        self._step_of = np.zeros(stretches, np.int64)
        self._step_of[self._stretch] = in_step
        self._there = np.zeros((self._steps, owners), bool)
        self._there[in_step[self._counts], owner[self._counts]] = True

    def factors(self, owner: int, alone: Flags, peers: Flags, like: str, at_all: bool) -> Floats:
        """Return by what factor each row has to change for an owner to take as long as its peers
        for these things together, step by step: less of what it takes longer in a stretch.

        `at_all`: what it takes longer in some steps and shorter in others is not longer.
        """
        rows = self._counts & alone[self._thing]
        shape = len(self._step_of), self._owners
        cell = self._stretch[rows] * self._owners + self._owner[rows]
        sums = np.bincount(cell, self._values[rows], minlength=shape[0] * shape[1])
        stretches = sums.astype(np.float64).reshape(shape)
        steps = np.zeros((self._steps, self._owners))
        np.add.at(steps, self._step_of, stretches)
        longer = self._longer(steps, np.arange(self._steps), owner, peers, like)
        in_some = np.maximum(longer, 0)
        if at_all:
            in_some *= max(longer.sum(), 0) / max(in_some.sum(), 1e-9)
        parts = np.maximum(self._longer(stretches, self._step_of, owner, peers, like), 0)
        all_parts = np.bincount(self._step_of, parts, minlength=self._steps)
        taken = parts * (in_some / np.maximum(all_parts, 1e-9))[self._step_of]
        factor: Floats = (1 - taken / np.maximum(stretches[:, owner], 1e-9))[self._stretch]
        return factor

    def _longer(self, total: Floats, step: Ints, owner: int, peers: Flags, like: str) -> Floats:
        """Return how much longer the owner takes in each row of `total`, of these steps, than its
        peers that are there in the step."""
        found = np.zeros(len(total))
        rows = np.flatnonzero(self._there[step, owner])
        beside = np.where(self._there[step[rows]] & peers, total[rows], np.nan)
        found[rows] = total[rows, owner] - lower_quantiles(beside, _QUANTILES[like])
        return found
