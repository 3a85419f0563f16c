"""Where the critical path changes rank, worked out by hand."""

from duckdb import DuckDBPyConnection as Connection

from tests.analyses.builders import rows
from tests.replay import by_hand
from tests.replay.by_hand import US


def test_it_changes_at_the_collective_from_the_last_to_arrive(empty_run: Connection) -> None:
    by_hand.write(empty_run)
    (change,) = rows(empty_run, "path_changes")
    assert (change["from_rank"], change["to_rank"], change["at_ns"]) == (1, 2, 30 * US)
    assert (change["step"], change["op"], change["group_id"]) == (1, "all_reduce", 0)
    found = empty_run.execute("SELECT collective_id FROM collective_instances").fetchall()
    assert [(change["collective_id"],)] == found
