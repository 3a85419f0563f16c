"""How long ranks take for the same, and by what factor one has to change to be like the others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from traceweave.arrays import Flags, Floats, Ints

AS_A_WHOLE = frozenset({"compute", "copy", "data_loading"})
"""Kinds of which less of one thing may stand for more of another. Launching is one only on threads
that launch: among the calls that ranks make unequally often are those of threads that only look
whether there is work. A pause counts whatever call or operator follows it."""

_SUMMARIES: dict[str, Callable[[Floats], float]] = {
    # of an even number the lower one: of two ranks the slow one is to be like the other
    "median": lambda means: float(np.sort(means)[(len(means) - 1) // 2]),
    "fastest": lambda means: float(np.min(means)),
    "mean": lambda means: float(np.mean(means)),
}


_QUANTILES = {"median": 0.5, "fastest": 0.0}
"""What of the others' times is usual."""


def factors(
    values: Ints,
    of_thing: Ints,
    of_owner: Ints,
    like: str,
    shared: Ints | None = None,
    named: Flags | None = None,
) -> Floats:
    """Return for each thing and owner the factor that makes what the owner takes that of its peers;
    NaN: nobody else has it as often, which may be never.

    The same thing is compared among owners that have it as often; among those that have it at all,
    where the owners of each number in `shared` share their work. Nobody becomes slower by being
    like others, unless the same work is divided evenly. Owners that are `named` are to be like
    others: what only they have as often nobody else has.
    """
    summary = _SUMMARIES[like]
    things, owners = int(of_thing.max(initial=-1)) + 1, int(of_owner.max(initial=-1)) + 1
    cell = of_thing * owners + of_owner
    count = np.bincount(cell, minlength=things * owners).reshape(things, owners)
    total = np.bincount(cell, values, minlength=count.size).reshape(count.shape)
    factor = np.full(count.shape, np.nan)
    alike = count if shared is None else np.where(count > 0, shared + 1, 0)
    if like == "mean":
        kinds = int(alike.max(initial=0)) + 1
        peers = (np.arange(things)[:, None] * kinds + alike).ravel()
        number = np.bincount(peers)[peers].reshape(count.shape)
        sums = np.bincount(peers, total.ravel())[peers].reshape(count.shape)
        evenly = np.where(total > 0, sums / number / np.maximum(total, 1e-9), 1)
        return np.where(number > 1, evenly, np.nan)
    for row in range(things):
        for one in np.unique(alike[row]).tolist():
            peers = np.flatnonzero(alike[row] == one)
            if len(peers) > 1 and (named is None or not named[peers].all()):
                taken = total[row, peers]
                factor[row, peers] = np.where(
                    taken > 0, summary(taken) / np.maximum(taken, 1e-9), 1
                )
    np.minimum(factor, 1.0, out=factor)
    return factor


def divided(
    values: Ints, of_thing: Ints, of_owner: Ints, step: Ints, stretch: Ints, shared: Ints
) -> Floats:
    """Return the factor of each row where each thing is divided evenly, step by step, among the
    owners of the same number in `shared` that have it in any step: by turns they have it at all.

    What an owner has nothing of in a step makes longer what it has in the same stretch, or step.
    """
    of_thing, things = numbered(of_thing)
    of_step, steps = numbered(step)
    of_stretch, _ = numbered(of_step * (int(stretch.max(initial=0)) + 1) + stretch)
    owners, mates = len(shared), shared[:, None] == shared
    cell = (of_thing * steps + of_step) * owners + of_owner
    own = np.bincount(cell, values, minlength=things * steps * owners)
    own = own.reshape(things, steps, owners)
    has: Flags = np.sum(own > 0, axis=1) > 0
    number = np.maximum(has @ mates.astype(np.int64), 1)
    evenly = own @ mates.astype(np.float64) / number[:, None, :]
    factor: Floats = np.where(own > 0, evenly / np.maximum(own, 1e-9), 1)[
        of_thing, of_step, of_owner
    ]
    missing: Flags = (own == 0) & (evenly > 0) & has[:, None, :]
    for owner in np.unique(np.nonzero(missing)[2]).tolist():
        lacks = (has[:, owner, None] & (own[:, :, owner] == 0))[of_thing, of_step]
        given = values * (lacks & mates[of_owner, owner]) / number[of_thing, of_owner]
        mine = of_owner == owner
        for place in (of_stretch, of_step):
            kept = np.bincount(place[mine], values[mine] * factor[mine], minlength=len(given))
            more = np.bincount(place, given, minlength=len(given))
            factor[mine] *= (1 + more / np.maximum(kept, 1e-9))[place[mine]]
            given = np.where(kept[place] > 0, 0, given)
    return factor


def places(of_thing: Ints, of_owner: Ints, step: Ints, start: Ints) -> Ints:
    """Return the place of each among what is the same thing of one owner and step, from 0."""
    keys = np.stack([of_thing, of_owner, step])
    order = np.lexsort((start, *keys))
    leads = np.any(np.diff(keys[:, order], axis=1, prepend=-2) != 0, axis=0)
    number = np.arange(len(order))
    place = np.empty(len(order), np.int64)
    place[order] = number - np.maximum.accumulate(np.where(leads, number, 0))
    return place


def one_by_one(of_thing: Ints, of_owner: Ints, step: Ints, start: Ints) -> Ints:
    """Return a number for each thing, and, of what all owners have as often in every step, for each
    place among the same."""
    of_step, steps = numbered(step + 1)
    thing, things = numbered(of_thing)
    owner, owners = numbered(of_owner)
    place = places(thing, owner, of_step, start)
    cells = np.bincount(
        (thing * owners + owner) * steps + of_step, minlength=things * owners * steps
    )
    count = cells.reshape(things, owners, steps)[:, :, (0 if np.all(step >= 0) else 1) :]
    alike = np.all(count == count[:, :1, :1], axis=(1, 2))
    return thing * (int(place.max(initial=0)) + 1) + np.where(alike[thing], place, 0)


def in_steps(
    values: Ints, of_thing: Ints, of_owner: Ints, step: Ints, factor: Floats, like: str
) -> Floats:
    """Return the factor of each row where what an owner takes longer is taken from the steps in
    which it does: one that is slow from some step on is like the others before.

    `factor` is that of each thing and owner over all steps, which says how much there is to take.
    """
    of_step, steps = numbered(step + 1)
    things, owners = factor.shape
    cell = of_thing * owners + of_owner
    own, longer = (np.zeros((steps, things * owners)) for _ in range(2))
    for place in range(steps):
        rows = of_step == place
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
    in_step: Floats = found[of_step, cell]
    return in_step


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
        self, values: Ints, of_thing: Ints, of_owner: Ints, step: Ints, stretch: Ints
    ) -> None:
        """`stretch` numbers the stretches of a step, between moments that all owners share."""
        self._values, self._of_thing = values.astype(np.float64), of_thing
        self._in_step = step >= 0 if np.any(step >= 0) else np.ones(len(step), bool)
        self._of_step, self._steps = numbered(step + 1)
        self._of_stretch, self._stretches = numbered(
            self._of_step * (int(stretch.max(initial=0)) + 1) + stretch
        )
        self._step_of = np.zeros(self._stretches, np.int64)
        self._step_of[self._of_stretch] = self._of_step
        self._of_owner, self._owners = of_owner, int(of_owner.max(initial=-1)) + 1
        self._there = np.zeros((self._steps, self._owners), bool)
        self._there[self._of_step[self._in_step], of_owner[self._in_step]] = True

    def factors(self, owner: int, alone: Flags, peers: Flags, like: str, at_all: bool) -> Floats:
        """Return by what factor each row has to change for an owner to take as long as its peers
        for these things together, step by step: less of what it takes longer in a stretch.

        `at_all`: what it takes longer in some steps and shorter in others is not longer.
        """
        rows = self._in_step & alone[self._of_thing]
        cell = self._of_stretch[rows] * self._owners + self._of_owner[rows]
        size = self._stretches * self._owners
        sums: Floats = np.bincount(cell, self._values[rows], minlength=size).astype(np.float64)
        stretches = sums.reshape(-1, self._owners)
        steps = np.zeros((self._steps, self._owners))
        np.add.at(steps, self._step_of, stretches)
        longer = self._longer(steps, np.arange(self._steps), owner, peers, like)
        in_some = np.maximum(longer, 0)
        if at_all:
            in_some *= max(longer.sum(), 0) / max(in_some.sum(), 1e-9)
        parts = np.maximum(self._longer(stretches, self._step_of, owner, peers, like), 0)
        all_parts = np.bincount(self._step_of, parts, minlength=self._steps)
        taken = parts * (in_some / np.maximum(all_parts, 1e-9))[self._step_of]
        factor: Floats = (1 - taken / np.maximum(stretches[:, owner], 1e-9))[self._of_stretch]
        return factor

    def _longer(self, total: Floats, step: Ints, owner: int, peers: Flags, like: str) -> Floats:
        """Return how much longer the owner takes in each row of `total`, of these steps, than its
        peers that are there in the step."""
        found = np.zeros(len(total))
        rows = np.flatnonzero(self._there[step, owner])
        beside = np.where(self._there[step[rows]] & peers, total[rows], np.nan)
        found[rows] = total[rows, owner] - lower_quantiles(beside, _QUANTILES[like])
        return found


def numbered(keys: Ints) -> tuple[Ints, int]:
    """Return numbers in place of keys that are not negative, and how many different there are."""
    there = np.zeros(int(keys.max(initial=0)) + 1, bool)
    there[keys] = True
    numbers = np.cumsum(there) - 1
    return numbers[keys], int(numbers[-1]) + 1
