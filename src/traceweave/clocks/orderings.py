"""Moments of two ranks of which one cannot lie after the other: what bounds clocks, whatever it
comes from.

A message ends on the receiving rank after it has begun on the sending one. Collectives say the same
of every two of their ranks, and exchanges of probes of both of theirs (probes.py); they are so many
that bounds.py takes them by the block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats, Ints


@dataclass(frozen=True)
class Orderings:
    """One order per place of the arrays; ranks by their place in the fit, times on their own
    clocks, ns.
    """

    earlier_rank: Ints
    earlier: Floats
    later_rank: Ints
    later: Floats

    def tighten(self, upper: Floats) -> None:
        """Lower the bounds on o_i - o_j (`Bounds.upper`) in place to what the orders leave:
        earlier + o_i <= later + o_j.
        """
        room = self.later - self.earlier
        np.fmin.at(upper, (self.earlier_rank, self.later_rank), room)
