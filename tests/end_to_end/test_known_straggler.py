"""The recorded run whose rank 2 sleeps 40 ms in every step: found, with its cause."""

from tests.conftest import Recorded


def test_every_collective_is_matched_in_order(recorded: Recorded) -> None:
    for name in ("ddp_gloo_straggler", "ddp_gloo_4ranks"):
        run = recorded(name)
        rows = run.sql(
            "SELECT match, count(*) AS calls, count(DISTINCT collective_id) AS instances"
            " FROM collectives GROUP BY match"
        )
        assert rows.to_dict("records") == [{"match": "order", "calls": 88, "instances": 22}]
        complete = run.sql("SELECT bool_and(complete) AS complete FROM collective_instances")
        assert complete["complete"].tolist() == [True]


def test_the_rank_that_sleeps_is_the_straggler(recorded: Recorded) -> None:
    run = recorded("ddp_gloo_straggler")
    worst = run.stragglers().sort_values("caused_wait_ns", ascending=False).iloc[0]
    assert worst["rank"] == 2
    assert worst["cause"] == "data_loading"
    assert not worst["below_resolution"]
    # 3 ranks wait 40 ms at least for the first bucket of each of the 4 steps
    assert worst["caused_wait_ns"] > 3 * 4 * 40_000_000


def test_its_sleep_is_idle_time_and_the_others_wait(recorded: Recorded) -> None:
    rows = recorded("ddp_gloo_straggler").breakdown()
    means = rows.groupby("rank")[["idle_ns", "exposed_comm_ns"]].mean()
    assert means.loc[2, "idle_ns"] > 40_000_000
    assert (means.drop(2)["idle_ns"] < 10_000_000).all()
    assert (means.drop(2)["exposed_comm_ns"] > means.loc[2, "exposed_comm_ns"] + 30_000_000).all()
