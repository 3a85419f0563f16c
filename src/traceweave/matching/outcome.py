"""What matching says of every call: its instance, how it was found, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Ints

HOW = ("unmatched", "seq", "order", "sequence-aligned")
"""Values of base.matches.match; their position is their code in `Matches.how`."""

ACAUSAL = "however the ranks' calls are lined up, some end before their partners begin"
SEVERAL_WAYS = "the sequence repeats itself and fits in several ways"
_UNNAMED = "their groups are not named and may be several; flight recorder dumps name them"
UNNAMED = f"{ACAUSAL}: {_UNNAMED}"
MIXED = f"more threads ran its rank's calls than one group has: {_UNNAMED}"
ALONE = "no other rank of the group recorded it"
NO_PEER = "the trace does not say which rank is the other side"
ONE_SIDE = "the other side of the send or recv is not in the traces"
NOT_PROVEN = "no label names its group, and ends do not prove one"
NO_PAIR = "no label names the other side, and ends do not prove one"
RIVALS = "no label names the other side, and two ranks may be it"
NO_ORDER = "order and causality leave several ways to pair its rank's sends with receives"
NO_CLOCK = "the other side may be a rank with another clock, and order alone does not tell"
SAME_MEMBERS = "several groups of the same members may carry it"
OVERLAPS = "its stream ran another call at the same time, so its clock was set back"
PART_FITS = "only some of its stream's calls fit those of another rank"
DISAGREE = "ranks disagree on operation, size or type under one sequence number"
COALESCED = "ranks issued different numbers of calls under one sequence number"
MISNUMBERED = "what ranks did under these sequence numbers contradicts causality"
NO_SEQ = "without sequence number in a group whose other calls have one"
NO_TIME_FIT = "no call of another rank fits it in order and time"


@dataclass
class Matches:
    """Per call: its instance (-1: none), how it was found and, for the unmatched, why not."""

    instance: Ints
    how: Ints
    reason: Ints
    reasons: list[str]
    next_instance: int = 0
    """The first number that no instance has had."""

    @classmethod
    def empty(cls, calls: int) -> Matches:
        """Return `calls` unmatched calls without a reason."""
        return cls(
            np.full(calls, -1, dtype=np.int64),
            np.zeros(calls, dtype=np.int64),
            np.full(calls, -1, dtype=np.int64),
            [],
        )

    def refuse(self, index: Ints, reason: str) -> None:
        """Leave the calls at `index` unmatched because of `reason`."""
        if not len(index):
            return
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.instance[index] = -1
        self.how[index] = 0
        self.reason[index] = self.reasons.index(reason)

    def refused(self, reason: str) -> Flags:
        """Return which calls are unmatched because of `reason`."""
        code = self.reasons.index(reason) if reason in self.reasons else len(self.reasons)
        return np.asarray(self.reason == code)

    def accept(self, index: Ints, instance: Ints, how: str) -> None:
        """Give the calls at `index` their instances."""
        self.instance[index] = instance
        self.how[index] = HOW.index(how)
        self.reason[index] = -1
        self.next_instance = max(self.next_instance, int(instance.max(initial=-1)) + 1)

    def matched(self) -> dict[str, int]:
        """Calls per way in which they were matched."""
        counts = np.bincount(self.how, minlength=len(HOW))
        return {how: int(n) for how, n in zip(HOW[1:], counts[1:], strict=True) if n}

    def unmatched(self) -> dict[str, int]:
        """Calls without an instance, by reason."""
        counts = np.bincount(self.reason[self.reason >= 0], minlength=len(self.reasons))
        return {reason: int(n) for reason, n in zip(self.reasons, counts, strict=True) if n}
