"""What runs every time, and what only in the nightly run: the same check on further runs."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

nightly = pytest.mark.nightly

Test = TypeVar("Test", bound=Any)


def at_once(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """Return parameters of a test, of which those that are not among `chosen` are left to nights.

    Choose one of every kind: the others are there to find what nobody thought of."""
    values = list(values)
    assert all(value in values for value in chosen)
    return [value if value in chosen else pytest.param(value, marks=nightly) for value in values]


def first_at_once(count: int = 1) -> Callable[[Test], Test]:
    """Leave the parameters of the decorator below, after the first `count`, to nights."""

    def leave(test: Test) -> Test:
        *others, below = test.pytestmark
        names, values = below.args[0], list(below.args[1])
        assert 0 < count < len(values)
        test.pytestmark = others
        whole = isinstance(names, str)
        every = [*values[:count], *(_by_night(value, whole) for value in values[count:])]
        return pytest.mark.parametrize(names, every, **below.kwargs)(test)

    return leave


def _by_night(value: Any, whole: bool) -> Any:
    if hasattr(value, "marks"):  # of pytest.param
        return value._replace(marks=[*value.marks, nightly])
    return pytest.param(*((value,) if whole else value), marks=nightly)


by_night = False
"""Whether nightly tests run too, as tests/conftest.py says before any test is imported."""


def examples(count: int) -> int:
    """Return how many examples of a slow property are tried, of `count` that nights have."""
    return count if by_night else count // 4
