"""The SQL of the product, as files."""

from pathlib import Path

import pytest

import traceweave
from tests.lint_sql import UNPARSED, every_sql, faults
from tests.marks import nightly

ROOT = Path(traceweave.__file__).parent
MOST_LINES = 200
"""A file answers one question: what is longer answers several."""


def test_no_file_is_longer_than_200_lines() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.rglob("*.sql")
    }
    assert lines
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.parametrize(
    ("rule", "sql"),
    [
        ("ST03", "WITH unused AS (SELECT 1 AS a) SELECT 2 AS b"),
        ("ST11", "SELECT a.rank FROM ranks AS a LEFT JOIN steps AS b ON b.rank = a.rank"),
        ("AL05", "SELECT rank FROM ranks AS r"),
        ("AL08", "SELECT rank AS a, step AS a FROM steps"),
        ("AM07", "SELECT 1 AS a UNION ALL SELECT 1 AS a, 2 AS b"),
        ("AM08", "SELECT a.rank, b.step FROM ranks AS a JOIN steps AS b"),
        ("CP01", "SELECT rank FROM ranks where rank = 0"),
        ("PRS", "SELECT rank FROM ranks WHERE ) = 0"),
    ],
)
def test_faults_are_found(rule: str, sql: str) -> None:
    assert rule in {fault.rule for fault in faults("planted", sql)}


def test_a_relation_that_a_macro_is_given_by_name_is_used() -> None:
    sql = "WITH edges AS (SELECT 1 AS a) SELECT b FROM tw_until('edges')"
    assert list(faults("planted", sql)) == []


@nightly
def test_what_is_not_linted_cannot_be() -> None:
    texts = every_sql()
    for name in UNPARSED:
        assert "PRS" in {fault.rule for fault in faults(name, texts[name])}, name
