"""Our numbers beside those of HolisticTraceAnalysis and `nsys stats` on the same real traces."""

from pathlib import Path

import pytest

from tests.conftest import Recorded
from tests.end_to_end.peers import COMPARISONS, Comparison, limit, trace_of
from tests.marks import nightly


@pytest.mark.parametrize(
    ("comparison", "name"),
    [
        pytest.param(
            comparison, name, id=f"{comparison.peer.split()[-1]}-{name}",
            marks=[] if name == comparison.traces[0] else [nightly],
        )
        for comparison in COMPARISONS
        for name in comparison.traces
    ],
)  # fmt: skip
def test_numbers_are_those_of_the_peer(
    recorded: Recorded,
    corpus: Path,
    expected: Path,
    unpacked: Path,
    comparison: Comparison,
    name: str,
) -> None:
    run = recorded(trace_of(corpus, name, unpacked))
    ours, theirs = comparison.compare(run, expected, name)
    assert ours.keys() == theirs.keys()
    allowed = limit(comparison, run) + 1e-9
    assert {
        key: (ours[key], theirs[key]) for key in ours if abs(ours[key] - theirs[key]) > allowed
    } == {}
