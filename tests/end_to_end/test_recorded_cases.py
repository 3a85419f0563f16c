"""What is true of the recorded cases (see fixtures/README.md), where the product says it."""

import pickle
from collections.abc import Callable
from pathlib import Path

import traceweave
from tests.conftest import Recorded
from tests.marks import nightly
from tests.rewritten import unlisted


@nightly
def test_two_groups_of_the_same_members_are_matched_in_the_order_of_the_calls(
    recorded: Recorded, fixtures: Path
) -> None:
    """The flight recorder of each rank says in which group and order its calls were made."""
    run = recorded("two_groups_gloo")
    calls = run.sql("SELECT rank, op, collective_id FROM collectives ORDER BY rank, start_ns")
    instances = run.sql(
        "SELECT bool_and(complete) AS complete, count(*) AS n FROM collective_instances"
    )
    assert instances.to_dict("records") == [{"complete": True, "n": 28}]
    for rank, made in calls.groupby("rank"):
        dump = fixtures / "flight_recorder" / "two_groups_gloo" / f"_dump_{rank}"
        entries = pickle.loads(dump.read_bytes())["entries"][-len(made) :]
        groups = [entry["process_group"][1] for entry in entries]
        assert groups == [*["dispatch", "combine"] * 3, "default_pg"] * 4
        assert [f"gloo:{op}" for op in made["op"]] == [e["profiling_name"] for e in entries]
        assert made["collective_id"].is_unique
    assert calls.groupby("rank")["collective_id"].agg(tuple).nunique() == 1


@nightly
def test_flight_recorder_dumps_help_where_groups_are_not_named(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    """Two groups that overlap, which gloo's events do not name; rank 1 sleeps before each step."""
    traces = fixtures / "odd_groups_gloo"
    calls = "SELECT count(*) AS calls, count(collective_id) AS matched FROM collectives"
    with traceweave.open(database_of(unlisted(traces, tmp_path / "traces"))) as run:
        assert run.sql(calls).to_dict("records") == [{"calls": 40, "matched": 0}]
        [why] = run.issues()["message"]
    assert why.endswith("may be several; flight recorder dumps name them")
    dumps = fixtures / "flight_recorder" / "odd_groups_gloo"
    with traceweave.open(database_of(traces, dumps)) as run:
        assert run.sql(calls).to_dict("records") == [{"calls": 40, "matched": 40}]
        late = run.stragglers().set_index("rank")
    assert late.index[0] == 1
    assert late.loc[1, "cause"] == "unknown_idle"
    # it is late in one group because it waited for rank 1 in another
    assert late.loc[3, "cause"] == "other_group"
    assert late.loc[3, "cause_detail"].endswith("waiting for rank 1")
