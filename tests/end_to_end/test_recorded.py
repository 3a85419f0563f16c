"""What is right of recorded runs, by their files, other tools or by hand: recorded/*.cases."""

from collections.abc import Callable

from tests.analyses.builders import TEXTS
from tests.conftest import Recorded
from tests.told import Case, Rows, told
from traceweave import Run


def asking(run: Run) -> Callable[[str], Rows]:
    """Queries are SQL, in which analyses are functions, or a column of what_if and a scenario."""

    def ask(query: str) -> Rows:
        column, scenario = query.split(" ", 1)
        if column.endswith("_ns"):
            return [(run.what_if(scenario)[column].iloc[0],)]
        columns = [column.to_pylist() for column in run.stream(query).read_all().columns]
        return list(zip(*columns, strict=True))

    return ask


@told
def test_recorded(recorded: Recorded, case: Case) -> None:
    [run] = case.given({"recorded": recorded})
    case.holds(asking(run), TEXTS)
