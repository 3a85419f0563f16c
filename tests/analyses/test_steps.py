from tests.analyses.builders import Builder, check
from tests.told import Case, told


@told
def test_steps(build: Builder, case: Case) -> None:
    check(build, case)
