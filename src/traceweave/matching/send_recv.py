"""Pairing sends with receives: the n-th send from i to j is the n-th receive of j from i."""

from __future__ import annotations


import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.alignment import align_pair
from traceweave.matching.buffered_channels import pair_buffered
from traceweave.matching.calls import SEND, Calls
from traceweave.matching.outcome import NO_PEER, ONE_SIDE, Matches

def match_channels(calls: Calls, index: Ints, same_clock: SameClock, matches: Matches) -> None:
    """Pair the n-th send from i to j with the n-th recv of j from i, checked and repaired like any
    sequence.
    """
    if not len(index):
        return
    unknown = calls.peer[index] < 0
    matches.refuse(index[unknown], NO_PEER)
    index = index[~unknown]
    sends = calls.op[index] == SEND
    source = np.where(sends, calls.rank[index], calls.peer[index])
    target = np.where(sends, calls.peer[index], calls.rank[index])
    channels, channel = np.unique(np.c_[source, target], axis=0, return_inverse=True)
    for number, (i, j) in enumerate(channels):
        here = channel.reshape(-1) == number
        sent, received = index[here & sends], index[here & ~sends]
        if not len(sent) or not len(received):
            matches.refuse(index[here], ONE_SIDE)
            continue
        _pair(calls, sent, received, same_clock(int(i), int(j)), matches)


def _pair(calls: Calls, sent: Ints, received: Ints, known: bool, matches: Matches) -> None:
    a, b = calls.take(sent), calls.take(received)
    a.op[:] = b.op[:] = SEND
    alignment = align_pair(a, b, same_clock=known)
    partner, how = alignment.partner, "order" if alignment.plain else "sequence-aligned"
    if (partner >= 0).sum() < min(len(a), len(b)):
        send_of = pair_buffered(a, b, same_clock=known)
        found = np.flatnonzero(send_of >= 0)
        if len(found) > (partner >= 0).sum():
            partner, how = np.full(len(a), -1, dtype=np.int64), "sequence-aligned"
            partner[send_of[found]] = found
    if (partner < 0).all():
        matches.refuse(np.r_[sent, received], alignment.reason)
        return
    found = np.flatnonzero(partner >= 0)
    instance = matches.next_instance + np.arange(len(found))
    matches.accept(sent[found], instance, how)
    matches.accept(received[partner[found]], instance, how)
