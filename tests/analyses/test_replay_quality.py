"""How much the dependency graph explains: by hand, on real runs that record little and much."""

from duckdb import DuckDBPyConnection as Connection

from tests.analyses.builders import Builder, rows, told
from tests.conftest import Recorded
from tests.marks import nightly
from tests.replay import by_hand
from traceweave.report.sections.worth import load_worth


def test_a_delay_that_nothing_explains_is_counted(empty_run: Connection) -> None:
    run = Builder(empty_run)
    run.rank(0)
    call = run.launch(0, (0, 5_000))
    run.gpu(0, (6_000, 40_000), launch=call)
    late = run.launch(0, (20_000, 25_000))
    # the stream is free at 40 us and the launch long done, yet it starts at 100 us
    run.gpu(0, (100_000, 140_000), launch=late)
    columns = "unexplained_ns explained ops launched dropped"
    assert told(run.con, "replay_quality", columns) == [(60_000, 1 - 60 / 134, 2, 1.0, 0)]


def test_what_the_device_did_before_the_recording_is_on_no_path(empty_run: Connection) -> None:
    """A copy of a real run waited 90 ms for the batch before, of which no op was recorded."""
    run = Builder(empty_run)
    run.rank(0)
    run.gpu(0, (90_000_000, 90_001_000), "memory", launch=run.launch(0, (0, 50_000)))
    call = run.launch(0, (90_005_000, 90_010_000))
    run.gpu(0, (90_010_000, 95_000_000), launch=call)
    assert told(run.con, "replay_quality", "path_unexplained window_ns") == [(0.0, 5_000_000)]
    kinds = {row["kind"] for row in rows(run.con, "critical_path")}
    assert kinds == {"launch", "compute"}


def test_a_graph_by_hand_is_explained_but_for_its_launches(empty_run: Connection) -> None:
    by_hand.write(empty_run)
    found = rows(empty_run, "replay_quality")
    assert [r["explained"] for r in found] == [1.0, 1.0, 1.0]
    assert [r["collectives"] for r in found] == [1, 1, 1]
    assert [r["launched"] for r in found] == [0, 0, 0]
    assert all("launching calls are missing" in r["note"] for r in found)


@nightly
def test_what_was_launched_or_began_before_the_recording_asks_for_no_switch(
    recorded: Recorded,
) -> None:
    """All ranks recorded CPU and CUDA activity: GPUs were behind by up to 36 ms when it began, and
    four ranks began before the others."""
    run = recorded("kineto/nanogpt_8xh100")
    found = run.replay_quality()
    assert found["launched"].between(0.75, 0.91).all()
    assert not found["note"].str.contains("launching calls").any()
    early = found[found["incomplete"] > 0]
    assert list(early["rank"]) == [4, 5, 6, 7]
    assert early["note"].str.endswith("record the same steps on every rank").all()
    advice = load_worth(run.con).advice
    assert len(advice) == 2
    assert advice[1].endswith("record the same steps on every rank")
