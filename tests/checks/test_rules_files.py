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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "is not TOML"),
        ("", r"a rules file is a list of \[\[rule\]\] tables"),
        ("rules = 1", r"\[\[rules\]\]: did you mean \[\[rule\]\]"),
        ("limits = 1", "it has limits besides"),
        ("[[rule]]\nmax = 1", "rule 1 has no name"),
        (HEAD + 'sql = "SELECT 1"', "sets no limit"),
        (HEAD + 'sql = "SELECT 1"\nmax = "5 parsecs"', "max = '5 parsecs' is not a quantity"),
        (HEAD + 'sql = "SELECT 1"\nmax = true', "max = True is not a quantity"),
        (HEAD + 'sql = "SELECT 1"\nmaximum = 1', "no such key: 'maximum'"),
        (HEAD + "max = 1", "give either sql, or analysis and column"),
        (HEAD + 'sql = "SELECT 1"\ncolumn = "a"\nmax = 1', "give either sql, or analysis"),
        (HEAD + 'column = "a"\nmax = 1', "analysis is missing"),
        (
            HEAD + 'analysis = "steps"\ncolumn = "duration_p50_ns"\nmax = "1 GB"',
            "max = '1 GB' has another unit than the column duration_p50_ns, which is in ns",
        ),
        # a misspelt column is what is wrong, not the unit that its name does not have
        (
            HEAD + 'analysis = "breakdown"\ncolumn = "idle_n"\nmax = "5 ms"',
            "breakdown has no column 'idle_n'; did you mean 'idle_ns'?",
        ),
        (
            HEAD + 'compare = "step"\ncolumn = "new_n"\nmax = "5 ms"',
            "max = '5 ms' has another unit than the column new_n, which has none",
        ),
        (HEAD + 'sql = "SELECT 1"\nmax = "1 GB"\nmin = "1 ms"', "another unit than the number"),
        (
            HEAD + 'analysis = "stepz"\ncolumn = "a"\nmax = 1',
            "no such analysis: 'stepz'; did you mean",
        ),
        (
            HEAD + 'analysis = "steps"\ncolumn = "step"\naggregate = "avg"\nmax = 1',
            "no such aggregate: 'avg'",
        ),
        (HEAD + 'sql = "SELECT 1"\nmax_increase = -1', "it cannot be negative"),
        (HEAD + 'sql = "SELECT 1"\nmax = 1\noptional = 1', "optional = true"),
        (HEAD + 'sql = "SELECT 1"\nmax = 1\naccept_differences = "all"', "= true, or leave it out"),
        (HEAD + 'sql = "SELECT 1"\nmax = 1\nsmallest_change = 0.1', "for rules with compare"),
        (
            HEAD + 'compare = "step"\ncolumn = "new_ns"\nmax = 1\nsmallest_change = "5 ms"',
            "smallest_change is a share of the step",
        ),
        ((HEAD + 'sql = "SELECT 1"\nmax = 1\n') * 2, "two rules are named 'r'"),
    ],
)
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
