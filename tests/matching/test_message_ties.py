"""Which messages tie the clocks of hosts that nothing else ties."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from traceweave.matching.calls import UNKNOWN, Calls
from traceweave.matching.common_time import CommonTime
from traceweave.matching.groups import Group
from traceweave.matching.messages_by_evidence import Messages

MESSAGES = 40


def exchanges(gap_us: float) -> Calls:
    """What ranks 0, 4 and 8 exchange, in kernels that do not say with whom: 0 and 4 with each
    other, ended within 2 us; 8 with one that was not recorded, 3.3 ms after 0, give or take."""
    rng = np.random.default_rng(4)
    start = np.cumsum(rng.integers(5_000_000, 9_000_000, MESSAGES))[:, None]
    start = start + rng.integers(0, 300_000, (MESSAGES, 3))
    end = (
        start[:, :2].max(axis=1, keepdims=True) + 500_000 + rng.integers(-2_000, 2_000, start.shape)
    )
    end[:, 2] += 3_300_000 + np.rint(rng.normal(0, gap_us * 1000, MESSAGES)).astype(np.int64)
    start[:, 2] = end[:, 2] - rng.integers(600_000, 900_000, MESSAGES)
    # wall clocks of three hosts
    ahead = np.array([0, 800_000_000, -300_000_000])
    count = 3 * MESSAGES
    numbers = {f.name: np.full(count, -1) for f in fields(Calls)} | {
        "rank": np.repeat([0, 4, 8], MESSAGES),
        "label": np.zeros(count, dtype=np.int64),
        "op": np.full(count, UNKNOWN),
        "start": (start + ahead).T.ravel(),
        "end": (end + ahead).T.ravel(),
    }
    return Calls(**numbers | {"origin_ns": 0})


def tied(calls: Calls) -> CommonTime:
    none = np.full(len(calls), -1, dtype=np.int64)
    group = Group(("unlabelled", "on a GPU"), open=True)

    def same(_one: int, _other: int) -> bool:
        return False

    search = Messages(calls, np.arange(len(calls)), [group], same, none, complete=False)
    return search._tied(CommonTime(calls, none, same))


# what was wrong: rank 8 two stages on, whose messages come as evenly after those of rank 0, tied
# its host's clock 3.3 ms off; 49 messages of 4 with 8 were then joined with those of 8 with 12
def test_a_message_ties_clocks_with_one_rank() -> None:
    time = tied(exchanges(gap_us=8))
    assert time.tied(0, 4)
    assert not time.tied(0, 8)
    assert not time.tied(4, 8)
