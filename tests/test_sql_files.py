"""The SQL of the product, as files."""

from pathlib import Path

import traceweave
from tests.cases import cases
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


@cases
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
