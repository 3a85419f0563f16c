"""Events are copied into tables only where those of all kinds together are few."""

from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.conftest import DatabaseOf, Recorded
from tests.marks import nightly
from traceweave import analyses
from traceweave.analyses import common
from traceweave.analyses.question import Question
from traceweave.store.database import open_database


@pytest.mark.parametrize(("spare", "kept"), [(0, True), (-1, False)])
def test_events_of_all_kinds_count(
    fixtures: Path, database_of: DatabaseOf, monkeypatch: pytest.MonkeyPatch, spare: int, kept: bool
) -> None:
    with traceweave.open(database_of(fixtures / "ddp_gloo_4ranks")) as run:
        ((events,),) = run.con.execute("SELECT sum(events_stored) FROM sources").fetchall()
        monkeypatch.setattr(common, "MOST_EVENTS", events + spare)
        Question(run.con).hold(run.con, ["memory_events", "steps"])
        found = run.con.execute("SELECT view_name FROM duckdb_views() WHERE temporary").fetchall()
    there = {name for (name,) in found}
    assert "steps" in there
    assert ("memory_events" in there) == kept


CHANGES = "DELETE FROM steps", "UPDATE gpu_ops SET rank = 1", "INSERT INTO ranks FROM ranks"


@nightly
def test_what_is_kept_is_not_changed(recorded: Recorded) -> None:
    run = recorded("ddp_gloo_4ranks")
    run.health()
    held = run.con.execute("SELECT view_name FROM duckdb_views() WHERE temporary").fetchall()
    assert {("steps",), ("gpu_ops",), ("ranks",)} <= set(held)
    for change in CHANGES:
        with pytest.raises(duckdb.Error):
            run.con.execute(change)
        with pytest.raises(traceweave.QueryError, match="queries only read this database"):
            run.sql(f"{change}; SELECT 1")


@nightly
@pytest.mark.parametrize("analysis", ["breakdown", "stragglers"])
def test_a_connection_to_two_runs_answers_of_the_one_in_use(
    fixtures: Path, database_of: DatabaseOf, analysis: str
) -> None:
    names = "ddp_gloo_4ranks", "ddp_gloo_straggler"
    with duckdb.connect() as both:
        for name in names:
            path = database_of(fixtures / name)
            both.execute(f"ATTACH '{path}' AS \"a-{name}\" (READ_ONLY)")
        answers = []
        for name in (*names, *names):
            both.execute(f'USE "a-{name}"')
            answers.append(analyses.run(both, analysis).fetchall())
    for number, name in enumerate(names):
        with open_database(database_of(fixtures / name)) as alone:
            found = analyses.run(alone, analysis).fetchall()
        assert answers[number] == answers[number + 2] == found
