"""Where ranks meet: they agree and wait for each other over a key-value store, and never longer
than a time limit.

No collective is used for it. One that a rank does not come to hangs the others, or is taken for the
next collective of the training where a rank's helper has turned itself off.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import Store

BARRIERS = ("agreed", "begin", "end", "probed")
"""In the order in which every rank passes them."""
RECORD, SKIP = "record", "skip"
ALL, LATE = "all", "late"
POLL_S = 0.02
_MOST_NAMED = 8
"""Of ranks that are missing, so many are named."""


@dataclass(frozen=True)
class Agreement:
    """What the ranks have settled on, the same on each of them."""

    record: bool
    note: str
    """Why not, or who is missing; empty where all is well."""


class Meeting:
    """The ranks of one capture. Every method returns within the time limit, in seconds."""

    def __init__(self, store: Store, name: str, rank: int, world_size: int, limit: float) -> None:
        from torch.distributed import PrefixStore

        # a store of its own: waiting on the job's would hold up its other threads
        self._own = False
        with suppress(AttributeError, RuntimeError):  # older versions of torch cannot
            store, self._own = store.clone(), True
        self._store = PrefixStore(f"traceweave/{name}", store)
        self.rank = rank
        self._expected = world_size
        self._world_size = world_size
        self.limit = limit
        self._waiting_for = list(BARRIERS)
        self._voted = False
        self.left = False

    def agree(self, objection: str | None, all_ranks: bool) -> Agreement:
        """Settle whether to record: the first to know decides, and all others follow.

        An `objection` of any rank decides against it. Whoever has waited for the time limit decides
        for those that came, against it if that has to be `all_ranks`.
        """
        self._vote(objection)
        if not self._wait("decision"):
            came, missing = self._who_came()
            note = f"{_named(missing)} did not come within {self.limit:g} s"
            self._decide(SKIP if all_ranks else RECORD, came, note)
        verdict, expected, reason = self._store.get("decision").decode().split(" ", 2)
        self._expected = int(expected)
        return Agreement(verdict == RECORD, reason)

    def barrier(self, name: str) -> bool:
        """Wait until all have come; tell whether they have. Who has left comes to none."""
        if self.left:
            return True
        self._waiting_for.remove(name)
        self._arrive(name)
        if not self._wait(f"{name}/open"):
            self._open(name, f"{LATE} {self._store.add(name, 0)}")
        verdict, _, came = self._store.get(f"{name}/open").decode().partition(" ")
        if verdict == ALL:
            return True
        # who is missing now is not waited for again, by any rank
        self._expected = int(came)
        return False

    def leave(self, reason: str) -> None:
        """Come to everything that is still to come, so that nobody waits for this rank."""
        if not self._voted:
            self._vote(reason)
        for name in self._waiting_for:
            self._arrive(name)
        self.left = True

    def first(self, key: str) -> int:
        """Return the rank that was the first to ask this of `key`."""
        return int(self._store.compare_set(key, "", str(self.rank)))

    def take_number(self, key: str) -> int:
        """Return how many have taken a number of `key` before."""
        return int(self._store.add(key, 1)) - 1

    def tell(self, key: str, value: str) -> None:
        """Let all know a value."""
        self._store.set(key, value)

    def ask(self, key: str) -> str | None:
        """Return what was told, None if nobody has within the limit."""
        return self._store.get(key).decode() if self._wait(key) else None

    def _vote(self, objection: str | None) -> None:
        self._voted = True
        if objection is not None:
            self._decide(SKIP, self._world_size, f"rank {self.rank}: {objection}")
        self._store.set(f"came/{self.rank}", "1")
        if self._store.add("votes", 1) == self._world_size:
            self._decide(RECORD, self._world_size, "")

    def _decide(self, verdict: str, came: int, note: str) -> None:
        self._store.compare_set("decision", "", f"{verdict} {came} {note}")

    def _who_came(self) -> tuple[int, list[int]]:
        missing = [r for r in range(self._world_size) if not self._store.check([f"came/{r}"])]
        return self._world_size - len(missing), missing

    def _arrive(self, name: str) -> None:
        if self._store.add(name, 1) >= self._expected:
            self._open(name, ALL)

    def _open(self, name: str, verdict: str) -> None:
        """Let a barrier be passed. The first to do so says how, and no rank sees it otherwise."""
        self._store.compare_set(f"{name}/open", "", verdict)

    def _wait(self, key: str) -> bool:
        if self._own:
            with suppress(RuntimeError):  # beyond the limit
                self._store.wait([key], timedelta(seconds=self.limit))
            return bool(self._store.check([key]))
        until = time.monotonic() + self.limit
        while not self._store.check([key]):
            if time.monotonic() > until:
                return False
            time.sleep(POLL_S)
        return True


def _named(numbers: list[int]) -> str:
    named = ", ".join(str(number) for number in numbers[:_MOST_NAMED])
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {named}{more}"
