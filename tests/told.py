"""Cases that stand as text beside their tests: a few events, and what is answered of them.

Blocks of NAME.cases, parted by empty lines, are the cases of test_NAME.py, or those of all files in
the folder NAME. The first line says what a case is about (`nightly: ` before it leaves it to
nights); each line below that is indented is an event, in Python, made by a function of the test's
module. `? ` begins a query, which may go on in lines that begin with more spaces, and each line
after it is a row of the answer, as Python writes its values. A line that begins with # is a remark.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.marks import Test, nightly

Rows = list[tuple[Any, ...]]


@dataclass
class Case:
    """Events, and queries with their answers, as text."""

    events: list[str] = field(default_factory=list)
    asked: list[tuple[str, list[str]]] = field(default_factory=list)

    def given(self, names: dict[str, Any]) -> list[Any]:
        """Return the events, made by the functions of these names."""
        return [eval(event, names) for event in self.events]

    def holds(self, ask: Callable[[str], Rows], names: dict[str, Any]) -> None:
        """Compare every answer with what is asked for."""
        for query, rows in self.asked:
            got, want = ask(query), [eval(f"({row},)", names) for row in rows]
            assert got == want, (query, got)


def told(test: Test) -> Test:
    """Parametrize a test by the cases beside its module, as its argument `case`."""
    path = Path(test.__code__.co_filename)
    name = path.stem.removeprefix("test_")
    files = {"": path.with_name(name + ".cases")}
    if path.with_name(name).is_dir():
        files = {f"{one.stem}: ": one for one in sorted(path.with_name(name).glob("*.cases"))}
    found = [
        _case(block, of)
        for of, file in files.items()
        for block in file.read_text(encoding="utf-8").split("\n\n")
    ]
    return pytest.mark.parametrize("case", found)(test)


def _case(block: str, of: str) -> Any:
    title, *lines = [line for line in block.splitlines() if not line.startswith("#")]
    case = Case()
    for line in lines:
        if line.startswith("? "):
            case.asked.append((line[2:], []))
        elif not line.startswith("  "):
            case.asked[-1][1].append(line)
        elif case.asked:
            query, rows = case.asked.pop()
            case.asked.append((f"{query} {line.strip()}", rows))
        else:
            case.events.append(line.strip())
    by_night = title.startswith("nightly: ")
    marks = (nightly,) if by_night else ()
    return pytest.param(case, id=of + title.removeprefix("nightly: "), marks=marks)
