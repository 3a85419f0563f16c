"""What is right of recorded runs, by their files, other tools or by hand: recorded/*.cases."""

from tests.analyses.builders import TEXTS
from tests.conftest import Recorded
from tests.told import Case, Rows, told


@told
def test_recorded(recorded: Recorded, case: Case) -> None:
    """The one event is a run; queries are SQL, in which analyses are functions."""
    [run] = case.given({"recorded": recorded})

    def ask(query: str) -> Rows:
        columns = [column.to_pylist() for column in run.stream(query).read_all().columns]
        return list(zip(*columns, strict=True))

    case.holds(ask, TEXTS)
