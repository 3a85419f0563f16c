"""Rules files that are wrong, each said in one line."""

import re
from pathlib import Path

import duckdb
import pytest

from tests.cases import cases
from tests.checks.asking import HEAD, checked, rules_file
from traceweave.checks import read_rules
from traceweave.cli.main import main
from traceweave.errors import QueryError, UsageError


@cases
def test_a_wrong_rules_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        read_rules(rules_file(tmp_path, text))
    assert str(raised.value).startswith(str(tmp_path / "rules.toml"))


@cases
def test_a_scenario_that_makes_no_sense_is_refused(tmp_path: Path, keys: str, message: str) -> None:
    rules = rules_file(tmp_path, f'[[rule]]\nname = "worth"\nmax = 1\n{keys}\n')
    with pytest.raises(UsageError, match=re.escape(message)):
        read_rules(rules)


def test_a_wrong_rules_file_ends_with_code_2(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["check", str(databases[0]), "--rules", str(tmp_path / "none.toml")])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    reason = "cannot be read: No such file or directory; --init writes it"
    assert err == f"traceweave: error: {tmp_path}/none.toml: {reason}\n"


def test_errors_of_sql_name_the_rules_file(run: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(QueryError) as raised:
        checked(run, tmp_path, HEAD + 'sql = "SELECT nothing"\nmax = 1')
    assert str(raised.value).startswith(f"{tmp_path / 'rules.toml'}: rule 'r': Referenced column")
