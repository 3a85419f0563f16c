"""Cases that stand as rows beside their test: those of tests/test_api.py in tests/test_api.tsv."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.marks import Test, nightly


def cases(test: Test) -> Test:
    """Parametrize a test by the table that begins with its name and those of its parameters.

    What Python can read of a cell is a value, anything else the text that it is. A row that has
    `nightly` before its cells is left to nights. A line that begins with # is a remark on the next
    one, an empty line ends the table.
    """
    names, *rows = tables(Path(test.__code__.co_filename).with_suffix(".tsv"))[test.__name__]
    values = [_case(row, len(names)) for row in rows]
    return pytest.mark.parametrize(names if len(names) > 1 else names[0], values)(test)


def _case(row: tuple[Any, ...], count: int) -> Any:
    if len(row) > count:
        return pytest.param(*row[1:], marks=nightly)
    return row if count > 1 else row[0]


@cache
def tables(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the heads and the rows of all tables there, by the names of their tests."""
    found = {}
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        head, *rows = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
        found[head[0]] = [tuple(head[1:]), *(tuple(map(_value, row)) for row in rows)]
    return found


def _value(cell: str) -> Any:
    try:
        return ast.literal_eval(cell)
    except (SyntaxError, ValueError):
        return cell
