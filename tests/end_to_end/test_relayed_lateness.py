"""A real run whose slow rank makes another one late, which makes a third one wait."""

import re
import shutil
from pathlib import Path

import pytest

import traceweave
from tests.marks import nightly

MS = 1_000_000

NAME = "slow_rank_2x2_gloo"


@pytest.fixture
def slow_rank(fixtures: Path, tmp_path: Path) -> traceweave.Run:
    """The recording, with the dumps of torch's flight recorder beside the traces."""
    for folder in (fixtures / NAME, fixtures / "flight_recorder" / NAME):
        for file in folder.iterdir():
            shutil.copy(file, tmp_path)
    traceweave.ingest(tmp_path, tmp_path / "run.duckdb")
    return traceweave.open(tmp_path / "run.duckdb")


@nightly
def test_the_chain_is_followed_to_the_rank_that_sleeps(slow_rank: traceweave.Run) -> None:
    with slow_rank as run:
        groups = run.sql("SELECT ranks FROM groups ORDER BY ranks")["ranks"].map(list).tolist()
        assert groups == [[0, 1], [0, 2], [1, 3], [2, 3]]
        ranks = run.stragglers().set_index("rank")
        found = run.findings()
        worst = run.health().set_index("answer").loc["worst straggler"]
    # 60 ms in each of 4 steps: 1 and 2 wait for 0, and 3 for 1
    assert ranks.index[0] == 0
    assert ranks["origin_wait_ns"].sum() == ranks["waited_ns"].sum()
    assert ranks.loc[0, "origin_wait_ns"] == pytest.approx(3 * 4 * 60 * MS, rel=0.1)
    assert ranks.loc[0, "cause"] == "data_loading"
    # what rank 3 waits for rank 1 is passed on
    assert ranks.loc[1, "caused_wait_ns"] > 200 * MS
    assert (ranks.loc[1, "origin_rank"], ranks.loc[1, "cause"]) == (0, "other_group")
    assert ranks.loc[1, "passed_on_ns"] > 0.9 * ranks.loc[1, "caused_wait_ns"]
    assert ranks.loc[1, "origin_wait_ns"] < 20 * MS
    [late] = found[found["rule"] == "straggler"].to_dict("records")
    assert list(late["ranks"]) == [0]
    assert re.match(r"Rank 0 keeps 3 ranks waiting 6\d\.\d ms per step", late["evidence"])
    assert (
        "Rank 0 waits for data. Rank 0 also holds up rank 1, for which others wait."
        in late["evidence"]
    )
    assert worst["rank"] == 0
