"""Rules about the change since a baseline."""

import csv
import io
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection as Connection

import traceweave
from tests.cases import cases
from tests.checks.asking import COMPUTE, EXAMPLE, HEAD, another_gpu, checked, one_gpu, rules_file
from tests.comparison.runs import run_of
from tests.marks import nightly
from traceweave.checks import check_run, junit_xml, read_rules
from traceweave.checks.annotations import github
from traceweave.checks.judge import crosses
from traceweave.checks.rules import Limit
from traceweave.cli.main import main
from traceweave.errors import UsageError

CHANGE = """
    [[rule]]
    name = "compute"
    analysis = "breakdown"
    column = "compute_ns"
    max_increase = {increase}
    max_decrease = "1 %"
"""


@nightly
@pytest.mark.parametrize(
    ("increase", "result"),
    [('"10 %"', "ok"), ('"39 ns"', "crossed"), ("40", "ok"), ('"9 %"', "crossed")],
)
def test_changes_are_limited_in_percent_or_in_units(
    run: Connection, tmp_path: Path, increase: str, result: str
) -> None:
    with run_of(gemm=440) as slower:
        found = checked(slower, tmp_path, CHANGE.format(increase=increase), run)
    assert [o.result for o in found.outcomes] == [result, "ok"]
    assert (found.outcomes[0].value, found.outcomes[0].baseline) == (440, 400)
    assert "= 440 ns, baseline 400 ns (+10.0%); limit: max_increase" in found.outcomes[0].message


@nightly
def test_rules_may_ask_what_compare_tests(run: Connection, tmp_path: Path) -> None:
    rules = """
    [[rule]]
    name = "steps became slower"
    compare = "step"
    sql = "SELECT coalesce(max(relative), 0) FROM rows WHERE verdict = 'slower'"
    max = "15 %"

    [[rule]]
    name = "new kernels"
    compare = "kernels"
    column = "item"
    aggregate = "count"
    where = "change = 'added'"
    max = 0
    """
    with run_of(lengths=(1500, 1210, 1190, 1200, 700), extra="new") as slower:
        found = checked(slower, tmp_path, rules, run)
    # 5 ns more are within what the steps differ by
    with run_of(lengths=(1500, 1015, 995, 1005, 700)) as noise:
        same = checked(noise, tmp_path, rules, run)
    assert [(o.value, o.result) for o in found.outcomes] == [
        (pytest.approx(0.2), "crossed"),
        (1, "crossed"),
    ]
    # and more than 1 % of the step is too
    assert [(o.value, o.result) for o in same.outcomes] == [(0, "cannot tell"), (0, "ok")]
    assert same.comparability is not None
    assert same.comparability.verdict == "comparable"
    assert found.outcomes[1].rule.metric == "count of kernels.item where change = 'added'"


@cases
def test_what_cannot_be_asked_of_a_comparison_is_said(
    run: Connection, tmp_path: Path, keys: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        checked(run, tmp_path, f"[[rule]]\nname = 'a'\nmax = 1\n{keys}", run)


def test_a_decrease_is_limited_too() -> None:
    five_percent = Limit("max_decrease", 0.05, "5 %", relative=True)
    assert not crosses(five_percent, 95, 100)
    assert crosses(five_percent, 94, 100)
    assert not crosses(five_percent, 200, 100)
    # of a negative baseline the size counts
    assert not crosses(five_percent, -104, -100)
    assert crosses(five_percent, -106, -100)


@nightly
def test_runs_that_are_not_comparable_fail_what_compares_them(tmp_path: Path) -> None:
    rules = """
    [[rule]]
    name = "compute"
    analysis = "breakdown"
    column = "compute_ns"
    max = "1 us"
    max_increase = "5 %"

    [[rule]]
    name = "slower"
    compare = "step"
    sql = "SELECT count(*) FROM rows WHERE verdict = 'slower'"
    max = 0

    [[rule]]
    name = "communication"
    analysis = "breakdown"
    column = "comm_ns"
    max_increase = "5 %"
    accept_differences = true
    """
    parsed = read_rules(rules_file(tmp_path, rules))
    with run_of(change=one_gpu) as base, run_of(change=another_gpu) as new:
        found = check_run(new, parsed, baselines=[base])
        accepted = check_run(new, parsed, baselines=[base], accept_differences=True)
        alone = check_run(new, [replace(parsed[0], limits=parsed[0].limits[:1])], baselines=[base])

    results = [(o.rule.name, o.limit.kind, o.result) for o in found.outcomes]
    assert results == [
        # a limit on the new run alone holds on any GPU
        ("compute", "max", "ok"),
        ("compute", "max_increase", "not comparable"),
        ("slower", "max", "not comparable"),
        ("communication", "max_increase", "ok"),
    ]
    assert not found.ok
    assert found.outcomes[1].message == (
        "not comparable: GPU model B instead of A; mean of breakdown.compute_ns = 400 ns, baseline"
        " 400 ns (0.0%); limit: max_increase 5 %"
    )
    assert found.table()["comparability"].to_pylist() == [None, *["not comparable"] * 3]
    assert accepted.ok
    assert accepted.comparability == found.comparability
    assert (alone.ok, alone.comparability) == (True, None)

    suite = ET.fromstring(junit_xml(found, "run"))[0]
    [stated] = suite.iter("property")
    assert stated.attrib["value"].startswith("Not comparable: GPU model B instead of A. ")
    assert [one.attrib["type"] for one in suite.iter("failure")] == ["not comparable"] * 2


@nightly
def test_a_rule_says_which_change_of_the_step_counts(run: Connection, tmp_path: Path) -> None:
    rule = "compare = 'step'\nsql = \"SELECT count(*) FROM rows WHERE verdict = 'slower'\"\nmax = 0"
    # 50 ns of 1000
    with run_of(lengths=(1500, 1060, 1040, 1050, 700)) as slower:
        results = [
            checked(slower, tmp_path, f"{HEAD}{rule}{least}", run).outcomes[0].result
            for least in ("", "\nsmallest_change = '5 %'", "\nsmallest_change = 0.051")
        ]
    assert results == ["crossed", "crossed", "cannot tell"]


@nightly
def test_a_v100_is_not_checked_against_an_a100(
    database_of: Callable[..., Path], corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, new = (database_of(corpus / "kineto" / name) for name in ("diff_control", "diff_test"))
    arguments = ["check", str(new), "--rules", str(EXAMPLE), "--baseline", str(base)]

    code = main(arguments)

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith("Not comparable: GPU model Tesla V100-SXM2-16GB instead of NVIDIA")
    [step] = [line for line in lines if line.startswith("step time")]
    assert "not comparable" in step
    assert "what compares with the baseline fails; --accept-differences" in err

    code = main([*arguments, "--accept-differences", "--format", "csv"])

    out, err = capsys.readouterr()
    assert err.startswith("Not comparable: GPU model")
    assert {row["result"] for row in csv.DictReader(io.StringIO(out))} <= {
        "ok", "crossed", "no value",
    }  # fmt: skip
    # a step of the V100 takes longer
    assert code == 1


def test_a_rule_on_parts_of_the_step_names_them(run: Connection, tmp_path: Path) -> None:
    rule = 'compare = "budget"\ncolumn = "difference_ns"\naggregate = "max"\nmax = "10 ns"\n'
    with run_of(gemm=440) as slower:
        [outcome] = checked(slower, tmp_path, HEAD + rule, run).outcomes
    # what was wrong: 'there is rank 1', or nothing
    assert outcome.result == "crossed"
    assert outcome.where.startswith("compute: 40 ns; ")


def test_what_needs_a_baseline_is_skipped_without_one(run: Connection, tmp_path: Path) -> None:
    compare = HEAD.replace("'r'", "'c'").replace('"r"', '"c"')
    compare += 'compare = "kernels"\ncolumn = "item"\naggregate = "count"\nmax = 0\n'

    found = checked(run, tmp_path, COMPUTE + "max = 1\nmax_increase = 1\n" + compare)

    assert [(o.limit.kind, o.result, o.skipped) for o in found.outcomes] == [
        ("max", "crossed", False),
        ("max_increase", "skipped", True),
        ("max", "skipped", True),
    ]
    assert "there is no baseline to compare with" in found.outcomes[1].message
    assert found.summary == "3 limits: 0 ok, 1 failed (compute), 2 skipped"
    suite = ET.fromstring(junit_xml(found, "run"))[0]
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("1", "2")


def test_a_baseline_without_the_number_says_why(
    run: Connection, empty_run: Connection, tmp_path: Path
) -> None:
    rule = 'sql = "SELECT max(rank) FROM ranks"\nmax_increase = 1\nmax = 9'
    change, value = checked(run, tmp_path, HEAD + rule, empty_run).outcomes[::-1]
    assert (value.result, value.missing) == ("ok", "")
    assert (change.result, change.missing) == ("no value", "baseline: the query gives NULL")


@nightly
def test_a_comparison_that_cannot_tell_is_not_ok(
    torchrec: Path, corpus: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    # three steps of each of two recordings of one job, one of them nearly twice as long
    two = corpus / "kineto" / "torchrec_two_runs_in_one_folder"
    again = database_of(*sorted(two.glob("*_26*")))
    rules = rules_file(
        tmp_path,
        HEAD
        + "compare = 'step'\nsql = \"SELECT count(*) FROM rows WHERE verdict = 'slower'\"\nmax=0",
    )
    found = traceweave.check(again, rules, baseline=torchrec)

    [outcome] = found.outcomes
    assert (outcome.result, found.ok) == ("cannot tell", True)
    assert outcome.message.endswith(
        "cannot tell: the difference of 3 and 3 steps is known to ±277 ms; record more"
    )
    assert found.summary == "1 limit: 0 ok, 0 failed, 1 cannot tell (r), 0 skipped"
    assert github(found, rules).startswith("::notice file=")
    suite = ET.fromstring(junit_xml(found, "run"))[0]
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("0", "1")


def test_a_comparison_that_can_tell_is_ok(run: Connection, tmp_path: Path) -> None:
    rule = "compare = 'step'\nsql = \"SELECT count(*) FROM rows WHERE verdict = 'slower'\"\nmax = 0"
    rule += "\nsmallest_change = '5 %'"
    with run_of(lengths=(1500, 1012, 992, 1002, 700)) as new:
        assert [one.result for one in checked(new, tmp_path, HEAD + rule, run).outcomes] == ["ok"]


@nightly
def test_a_change_is_named_with_what_it_was(run: Connection, tmp_path: Path) -> None:
    rule = 'analysis = "kernels"\ncolumn = "total_ns"\naggregate = "sum"\nmax_increase = "5 %"'
    with run_of(gemm=440) as slower:
        [outcome] = checked(slower, tmp_path, HEAD + rule, run).outcomes
    assert outcome.where.startswith("gemm: 4.400 us, was 4.000 us (+10.0%)")
