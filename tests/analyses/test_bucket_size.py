from tests.analyses.builders import Builder, rows
from tests.analyses.kernels_of_groups import Issuer, pick
from tests.conftest import Recorded


def _two_buckets(build: Builder, sizes: tuple[int | None, int | None]) -> None:
    """Ready at 1000 and 1050; 200 and 400 ns: a latency of 100 ns and 20 bytes per ns."""
    build.ranks(2)
    build.group(0, [0, 1], role="dp", role_source="name")
    issue = Issuer(build)
    for rank in (0, 1):
        issue.compute(rank, (0, 1000))
    issue.collective("all_reduce", dict.fromkeys((0, 1), (1000, 1200)), 500, bytes_=sizes[0])
    for rank in (0, 1):
        issue.compute(rank, (1000, 1050))
    issue.collective("all_reduce", dict.fromkeys((0, 1), (1200, 1600)), 600, bytes_=sizes[1])


def test_merging_saves_a_latency_and_costs_readiness(build: Builder) -> None:
    _two_buckets(build, (2000, 6000))
    got = rows(build.con, "bucket_size")
    names = ("merged", "buckets", "bytes_max", "reduce_ns", "tail_ns", "saved_ns", "is_best")
    assert pick(got, *names) == [
        # 1000 + 200 + 400 is later than 1050 + 400
        (1, 2, 6000, 600, 1600 - 1050, 0, False),
        # 8000 bytes: 100 + 400 from 1050 on
        (2, 1, 8000, 500, 500, 50, True),
    ]
    rest = ("group_id", "measured_tail_ns", "steps", "alpha_ns", "beta_gbps", "half_bytes", "note")
    assert pick(got, *rest) == [
        (0, 550, 1, 100, 20.0, 2000, None),
        (0, None, 1, 100, 20.0, 2000, None),
    ]


def test_without_a_fit_nothing_is_predicted(build: Builder) -> None:
    _two_buckets(build, (2000, 2000))
    got = rows(build.con, "bucket_size")
    assert pick(got, "merged", "tail_ns", "saved_ns", "is_best", "note") == [
        (k, None, None, None, "not computable: there is one size only") for k in (1, 2)
    ]
    assert got[0]["measured_tail_ns"] == 550


def test_unknown_sizes_are_said(build: Builder) -> None:
    _two_buckets(build, (None, None))
    assert set(pick(rows(build.con, "bucket_size"), "tail_ns", "note")) == {
        (None, "not computable: the trace does not say how many bytes")
    }


def test_the_prediction_for_the_shipped_run_is_near_what_was_measured(recorded: Recorded) -> None:
    got = recorded("ddp_gloo_4ranks").analyze("bucket_size", time="shortest")
    assert got["merged"].tolist() == [1, 2, 3, 4]
    today = got.iloc[0]
    # a fit over four sizes on two busy cores: a fifth is what can be asked for
    assert abs(today["tail_ns"] - today["measured_tail_ns"]) < 0.2 * today["measured_tail_ns"]
