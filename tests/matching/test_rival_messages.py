"""Messages that others may have, and groups that cannot be of one job with the others."""

from dataclasses import fields

import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.calls import RECV, SEND, Calls
from traceweave.matching.common_time import CommonTime
from traceweave.matching.turns import NEAR_NS, rivalled

Message = tuple[int, int, int, int]
"""Rank, SEND or RECV, its end in us, and its instance, -1 for none."""


def calls_of(messages: list[Message]) -> tuple[Calls, Ints]:
    rank, op, end, instance = np.array(messages).T
    columns = {f.name: np.full(len(rank), -1) for f in fields(Calls) if f.name != "origin_ns"}
    own = {"rank": rank, "op": op, "start": 1000 * (end - 90), "end": 1000 * end}
    return Calls(**(columns | own), origin_ns=0), instance


def doubtful(messages: list[Message]) -> list[int]:
    """The instances that others may have."""
    calls, instance = calls_of(messages)
    time = CommonTime(calls, instance, lambda _a, _b: True)
    return rivalled(calls, np.arange(len(calls)), instance, time).tolist()


def test_a_message_is_not_given_to_the_one_beside_its_pair() -> None:
    # 4 ranks to a stage; 10 sends to 14 while 6 hears from 2: with both other sides left alone, 10
    # seemed to send to 6, as it does at other times
    two_stages = [
        (6, SEND, 1_000, 0),
        (10, RECV, 1_001, 0),
        (10, SEND, 5_000, 1),
        (6, RECV, 5_002, 1),
    ]
    beside = [(10, SEND, 9_000, 2), (6, RECV, 9_002, 2)]
    alone = [(2, SEND, 9_001, -1), (14, RECV, 9_003, -1)]
    assert doubtful(two_stages + beside + alone) == [2]
    assert doubtful(two_stages + beside + alone[:1]) == [2]
    assert doubtful(two_stages + beside + alone[1:]) == [2]
    assert doubtful(two_stages + beside) == []


def test_what_ends_at_another_time_or_lies_elsewhere_is_no_rival() -> None:
    met = [(10, SEND, 9_000, 0), (6, RECV, 9_002, 0)]
    late = 9_002 + NEAR_NS // 1000
    assert doubtful([*met, (2, SEND, late - 1, -1)]) == [0]
    assert doubtful([*met, (2, SEND, late + 1, -1)]) == []
    assert doubtful([*met, (2, RECV, 9_002, -1)]) == []
    # messages go from stage to stage, 4 ranks on
    assert doubtful([*met, (3, SEND, 9_002, -1)]) == []
