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


def test_its_sleep_is_idle_time_and_the_others_wait(recorded: Recorded) -> None:
    rows = recorded("ddp_gloo_straggler").breakdown()
    means = rows.groupby("rank")[["idle_ns", "exposed_comm_ns"]].mean()
    assert means.loc[2, "idle_ns"] > 40_000_000
    assert (means.drop(2)["idle_ns"] < 10_000_000).all()
    assert (means.drop(2)["exposed_comm_ns"] > means.loc[2, "exposed_comm_ns"] + 30_000_000).all()
