"""Which message follows which tells the other side of one that time did not show."""

import numpy as np

from traceweave.matching.calls import RECV, SEND
from traceweave.matching.turns import Turns


def turns(other: list[int]) -> Turns:
    """Return steps of a rank that receives from 0, sends to 2, receives from 2, sends to 0."""
    op = np.resize([RECV, SEND, RECV, SEND], len(other))
    return Turns(np.ones(len(other), dtype=np.int64), op, np.array(other))


def test_what_always_comes_between_two_messages_is_expected_there() -> None:
    known = [0, 2, 2, 0] * 8
    holes = [-1 if n in (0, 5, 10, 31) else side for n, side in enumerate(known)]
    assert turns(holes).expected().tolist() == known


def test_a_pair_that_time_never_showed_is_not_taken_for_another() -> None:
    # the only send that is known after a receive from 0 is not what mostly comes there
    other = [0, -1, 2, 0] * 5
    other[1] = 0
    expected = turns(other).expected()
    assert (expected[5::4] == -1).all()


def test_what_comes_in_several_ways_is_not_expected() -> None:
    other = [0, 2, 2, 0, 0, 3, 2, 0] * 2 + [0, -1, 2, 0]
    assert turns(other).expected()[17] == -1


def test_in_one_place_of_a_program_most_messages_have_one_other_side() -> None:
    # one of twelve sends that nobody recorded the other side of met another call
    other = [0, -1, 2, 0] * 12
    other[21] = 2
    shares = turns(other).shares()
    assert shares[21] == 1 / 12
    assert (shares[4:-4:4] == 1).all()
    assert np.isnan(shares[[1, 5]]).all()
