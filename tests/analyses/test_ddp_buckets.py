from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import traceweave
from tests.analyses.builders import Builder, rows
from tests.analyses.kernels_of_groups import ACCUMULATE, Issuer, pick
from tests.conftest import Recorded
from tests.marks import at_once, nightly

BOTH = {"role": "world", "role_source": "size is the world size"}


def _run(build: Builder) -> Issuer:
    build.ranks(2)
    build.group(0, [0, 1], **BOTH)
    return Issuer(build)


def test_a_bucket_is_ready_when_the_compute_launched_before_it_has_ended(build: Builder) -> None:
    issue = _run(build)
    build.host(0, (15, 40), ACCUMULATE, tid=5)
    build.host(0, (115, 140), ACCUMULATE, tid=5)
    issue.compute(0, (0, 100))
    issue.collective("all_reduce", {0: (110, 300), 1: (120, 300)}, 20, tid=5, bytes_=2000)
    issue.compute(0, (100, 250))
    issue.collective("all_reduce", {0: (300, 400)}, 120, tid=5, bytes_=600, matched=False)
    issue.compute(0, (400, 500))
    # the loss, for which no gradient waits
    issue.collective("all_reduce", {0: (600, 650)}, 500, tid=1, bytes_=4000)
    got = rows(build.con, "ddp_buckets")
    assert pick(got, "rank", "step", "group_id", "bucket", "buckets", "bytes", "evidence") == [
        (0, 1, 0, 1, 2, 2000, "gradient"),
        (0, 1, 0, 2, 2, 600, "gradient"),
        # this rank shows no gradients: the group is known to be data parallel from the other one
        (1, 1, 0, 1, 1, 2000, "group"),
    ]
    assert pick(got, "asked_ns", "ready_ns", "start_ns", "end_ns", "queue_ns", "wait_ns") == [
        (20, 100, 110, 300, 10, 10),
        (120, 250, 300, 400, 50, None),
        (20, None, 120, 300, None, 0),
    ]
    # compute covers [110, 250) of the first; nothing runs during the second
    assert pick(got, "duration_ns", "exposed_ns", "hidden_fraction", "tail_ns") == [
        (190, 50, 140 / 190, None),
        (100, 100, 0.0, 400 - 250),
        (180, 180, 0.0, None),
    ]
    assert pick(got, "note") == [
        (None,), ("seen on one rank only",), ("no compute launched before it is in the trace",),
    ]  # fmt: skip


def test_gradients_are_not_ready_before_the_host_asks(build: Builder) -> None:
    issue = _run(build)
    issue.compute(0, (0, 100))
    issue.collective("all_reduce", {0: (260, 300)}, 200, bytes_=2000)
    (row,) = rows(build.con, "ddp_buckets")
    assert (row["ready_ns"], row["queue_ns"], row["tail_ns"]) == (200, 60, 100)
    assert row["evidence"] == "operation"
    assert row["note"].startswith("the traces do not show what the group is for")


def test_small_all_reduces_are_no_buckets(build: Builder) -> None:
    issue = _run(build)
    for size in (4, 1023, 1024, None):
        issue.collective("all_reduce", {0: (0, 100)}, bytes_=size)
    assert pick(rows(build.con, "ddp_buckets"), "bytes") == [(1024,), (None,)]
    assert pick(rows(build.con, "ddp_buckets", min_bytes=4), "bytes")[:3] == [
        (4,), (1023,), (1024,),
    ]  # fmt: skip


@nightly
def test_tensor_parallel_groups_have_no_buckets_unless_told_so(build: Builder) -> None:
    issue = _run(build)
    build.group(1, [0, 1], role="tp", role_source="name")
    issue.collective("all_reduce", {0: (0, 100)}, group_id=1)
    assert rows(build.con, "ddp_buckets") == []
    assert pick(rows(build.con, "ddp_buckets", group_id=1), "group_id", "evidence") == [
        (1, "group")
    ]


def test_the_shipped_run_reduces_four_buckets_per_step_in_their_order(recorded: Recorded) -> None:
    got = recorded("ddp_gloo_4ranks").analyze("ddp_buckets")
    # as tests/fixtures/README.md has it: 86016 + 73824 + 73824 + 86208 elements of 4 bytes
    sizes = [4 * n for n in (86016, 73824, 73824, 86208)]
    assert [group["bytes"].tolist() for _, group in got.groupby(["rank", "step"])] == [sizes] * 16
    assert set(got["evidence"]) == {"gradient"}
    assert (got["queue_ns"] > 0).all()
    by_step = got.groupby(["rank", "step"])
    tails = by_step["end_ns"].max() - by_step["asked_ns"].max()
    assert tails.tolist() == got["tail_ns"].dropna().tolist()


BUCKETS = {"baseline": 8, "bucketcap100mb": 5}


@pytest.fixture(params=at_once(BUCKETS, "baseline"))
def real(
    request: pytest.FixtureRequest, corpus: Path, database_of: Callable[..., Path]
) -> tuple[pd.DataFrame, int]:
    database = database_of(corpus / "nsys" / f"ddp_4gpu_{request.param}__nersc.sqlite.gz")
    with traceweave.open(database) as run:
        return run.analyze("ddp_buckets"), BUCKETS[request.param]


@nightly
def test_real_buckets_start_as_soon_as_they_are_ready(real: tuple[pd.DataFrame, int]) -> None:
    got, buckets = real
    assert got["buckets"].unique().tolist() == [buckets]
    # NCCL's kernel cannot start before the gradients are there, and with nothing in front of it
    # needs a few microseconds: that is how the order of launches is known to be right
    assert (got["queue_ns"] >= 0).all()
    first = got[got["bucket"] == 1]["queue_ns"]
    assert first.median() < 5_000
    # the last bucket is reduced when the backward pass has ended
    last = got[got["bucket"] == buckets]
    assert (last["exposed_ns"] == last["duration_ns"]).mean() > 0.9
