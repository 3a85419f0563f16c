"""The grammar of scenarios."""

from __future__ import annotations

import pytest

from traceweave.errors import UsageError
from traceweave.replay.nodes import HOLDS
from traceweave.replay.scenario import parse


def test_a_scenario_is_pairs_in_any_order() -> None:
    (one,) = parse("like=median  rank=0,3-5 kind=compute")
    assert (one.ranks, one.kinds, one.like) == ({0, 3, 4, 5}, {"compute"}, "median")
    assert (one.times, one.steps, one.name) == (None, None, None)


def test_names_may_have_blanks() -> None:
    (one,) = parse("module=nn.Module: Linear_0 times=0.5")
    assert (one.module, one.times, one.kinds) == ("nn.Module: Linear_0", 0.5, {"compute"})


def test_what_is_meant_follows_from_what_is_said() -> None:
    kinds = {
        "group=1 times=0.5": {"transfer"},
        "gbps=200": {"transfer"},
        "bytes=1e6-2e6 times=0": {"transfer"},
        "class=gemm times=0.5": {"compute", "copy", "transfer"},
        "name=*nccl* times=0.5": {"compute", "copy", "transfer"},
        "op=all_reduce times=0": {"transfer"},
        "op=aten::mm times=0": {"compute"},
        "rank=1 like=fastest": {"compute", "launch", "copy", *HOLDS},
        "while=idle times=0": {"launch", *HOLDS},
        "kind=sync times=0": {"sync"},
        "contention=none": {"compute"},
        "class=gemm contention=none": {"compute"},
    }
    for text, expected in kinds.items():
        (one,) = parse(text, ["all_reduce"])
        assert one.kinds == expected


def test_several_at_once_are_divided_by_semicolons() -> None:
    first, second = parse("kind=launch times=0; gbps=100 alpha_us=5 ;")
    assert (first.text, second.gbps, second.alpha_us) == ("kind=launch times=0", 100, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a scenario is empty; write KEY=VALUE pairs, such as 'rank=3"),
        ("rank=1", "changes nothing: give one of times=, like="),
        ("faster", "'faster' in scenario 'faster' is not KEY=VALUE"),
        ("ranks=1 times=0", "unknown key 'ranks'; did you mean 'rank'?"),
        ("kind=comm times=0", "unknown kind 'comm'; there are: compute, transfer"),
        ("rank=1 rank=2 times=0", "has rank twice"),
        ("rank=x times=0", "rank is numbers like 3 or 0,3-5"),
        ("kind=compute times=two", "times is a number"),
        ("kind=compute times=-1", "times is a number from 0 to 1000"),
        ("kind=compute like=best", "like is one of median, fastest, mean"),
        ("kind=sync times=0.5", "a sync can only be removed, with times=0"),
        ("kind=sync,launch like=median", "sync can only be removed"),
        ("kind=launch while=busy times=0", "while is idle, or not there"),
        ("kind=compute while=idle times=0", "while=idle is for times= of the kinds launch, data_l"),
        ("kind=launch while=idle like=median", "while=idle is for times= of the kinds"),
        ("kind=device_delay like=median", "device_delay has nothing to be like"),
        ("kind=compute gbps=100", "are for kind=transfer"),
        ("gbps=0", "gbps is a number above 0"),
        ("alpha_us=-1", "alpha_us is a number, 0 or more"),
        ("overlap=half", "overlap is full, or not there"),
        ("wait=all", "wait is none, or not there"),
        ("kind=compute wait=none", "are for kind=transfer"),
        ("kind=transfer contention=none", "contention=none is for kind=compute"),
        ("contention=some", "contention is none, or not there"),
        ("group=tp times=0", "group is numbers like 3 or 0,3-5; the relation groups has them"),
        ("bytes=big times=0", "bytes is a range like 1e6-2e6"),
        ("times=0.5 gbps=100", "has more than one change: times, gbps"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text)
    assert message in str(error.value)
