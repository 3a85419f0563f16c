"""The critical path, worked out by hand, and on real runs."""

import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.analyses.builders import rows
from tests.conftest import Recorded
from tests.marks import at_once, nightly
from tests.replay import by_hand
from tests.replay.by_hand import US


def test_it_goes_from_the_end_back_over_the_last_to_arrive(empty_run: Connection) -> None:
    by_hand.write(empty_run)
    found = rows(empty_run, "critical_path")
    # A of rank 1, the transfer as rank 2 saw it, D of rank 2: 70 in all
    assert [(r["step"], r["rank"], r["kind"], r["what"], r["path_ns"]) for r in found] == [
        (1, 1, "compute", "other", 30 * US),
        (1, 2, "compute", "other", 28 * US),
        (1, 2, "transfer", "all_reduce", 12 * US),
    ]
    assert [r["share"] for r in found] == pytest.approx([30 / 70, 28 / 70, 12 / 70])
    # rank 1 has 30 of 70 where the mean of 3 ranks is a third
    assert [r["critical_imbalance"] for r in found] == pytest.approx([90 / 70, 120 / 70, 120 / 70])
    # ranks compute 18, 48 and 53 in all
    assert [r["rank_ns"] for r in found] == [48 * US, 53 * US, 12 * US]
    assert [r["mean_ns"] for r in found] == pytest.approx([119 * US / 3, 119 * US / 3, 12 * US])


@nightly
@pytest.mark.parametrize("folder", at_once(["nanogpt_8xh100", "megatron_tp8"], "megatron_tp8"))
def test_a_rank_has_as_much_of_what_is_on_the_path(recorded: Recorded, folder: str) -> None:
    path = recorded(f"kineto/{folder}").critical_path()
    own = path[path["kind"] != "device_delay"]
    assert path.loc[path["kind"] == "device_delay", "rank_ns"].isna().all()
    assert "launch" in set(own["kind"])
    # the way from a launch to the device is on the path alone: some us
    assert (own["path_ns"] <= 1.01 * own["rank_ns"]).all()
