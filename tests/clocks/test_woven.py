"""What clocks are fitted to a few calls, worked out by hand: woven.cases; times are us."""

from duckdb import DuckDBPyConnection as Connection

from tests.collective_calls import BASE as BASE
from tests.collective_calls import Calls, check_woven
from tests.told import Case, told


@told
def test_woven(empty_run: Connection, case: Case) -> None:
    check_woven(Calls(empty_run), case, **globals())
