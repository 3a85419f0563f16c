"""Rules, limits and what CI sees of them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder
from tests.comparison.runs import run_of
from tests.marks import first_at_once, nightly
from traceweave.checks import CheckResult, check_run, junit_xml, read_rules
from traceweave.checks.annotations import github, gitlab
from traceweave.checks.counted import rows_behind
from traceweave.checks.judge import crosses
from traceweave.checks.noise import noise_of
from traceweave.checks.rules import Limit
from traceweave.cli.main import main
from traceweave.errors import QueryError, TraceweaveError, UsageError

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "rules.toml"


@pytest.fixture
def run(base_run: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Steps of 1500, 1010, 990, 1000 and 700 ns on two ranks: 400 compute, 200 exposed."""
    return base_run


def rules_file(folder: Path, text: str) -> Path:
    path = folder / "rules.toml"
    path.write_text(dedent(text))
    return path


def checked(
    con: duckdb.DuckDBPyConnection,
    folder: Path,
    text: str,
    baseline: duckdb.DuckDBPyConnection | None = None,
) -> CheckResult:
    return check_run(
        con, read_rules(rules_file(folder, text)), baselines=[baseline] if baseline else []
    )


def test_columns_of_analyses_and_sql_are_measured(
    run: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    found = checked(
        run,
        tmp_path,
        """
        [[rule]]
        name = "median"
        analysis = "breakdown"
        column = "window_ns"
        aggregate = "median"
        max = "1 us"
        min = 1000

        [[rule]]
        name = "steps of rank 1"
        analysis = "breakdown"
        column = "window_ns"
        aggregate = "count"
        where = "rank = 1 AND window_ns > 900"
        max = 3

        [[rule]]
        name = "host window"
        analysis = "breakdown"
        column = "exposed_comm_ns"
        params = { window = "span" }
        max = "1 us"

        [[rule]]
        name = "idle share"
        analysis = "breakdown"
        sql = "SELECT sum(exposed_comm_ns) / sum(window_ns) FROM rows"
        max = "20 %"

        [[rule]]
        name = "kernels"
        sql = "SELECT count(*) FROM gpu_ops WHERE name = 'gemm'"
        min = 11

        [[rule]]
        name = "an analysis in SQL"
        sql = "SELECT sum(idle_ns) FROM breakdown() JOIN steps USING (rank, step)"
        min = 1
        """,
    )

    assert [(o.rule.name, o.limit.kind, o.value, o.result) for o in found.outcomes] == [
        ("median", "max", 1000.0, "ok"),
        ("median", "min", 1000.0, "ok"),
        ("steps of rank 1", "max", 4.0, "crossed"),
        ("host window", "max", 1000.0, "ok"),
        ("idle share", "max", pytest.approx(1000 / 5200), "ok"),
        ("kernels", "min", 10.0, "crossed"),
        ("an analysis in SQL", "min", 4400.0, "ok"),
    ]
    assert not found.ok
    assert found.outcomes[4].message == (
        "SELECT sum(exposed_comm_ns) / sum(window_ns) FROM rows = 19.2%; limit: max 20 %"
    )


def test_percentiles_are_the_nearest_rank_as_in_the_analyses(
    run: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    # 1500, 1010, 990 and 1000 ns: between the two in the middle lies 1005, which none of them took
    rule = """
        [[rule]]
        name = "{0}"
        analysis = "breakdown"
        column = "window_ns"
        aggregate = "{0}"
        where = "rank = 1 AND window_ns > 900"
        max = 0
        """
    found = checked(run, tmp_path, "".join(map(rule.format, ("median", "p95", "p99"))))
    assert [outcome.value for outcome in found.outcomes] == [1000.0, 1500.0, 1500.0]


CHANGE = """
    [[rule]]
    name = "compute"
    analysis = "breakdown"
    column = "compute_ns"
    max_increase = {increase}
    max_decrease = "1 %"
"""


@pytest.mark.parametrize(
    ("increase", "result"),
    first_at_once(
        [('"10 %"', "ok"), ('"39 ns"', "crossed"), ("40", "ok"), ('"9 %"', "crossed")], count=2
    ),
)
def test_changes_are_limited_in_percent_or_in_units(
    run: duckdb.DuckDBPyConnection, tmp_path: Path, increase: str, result: str
) -> None:
    with run_of(gemm=440) as slower:
        found = checked(slower, tmp_path, CHANGE.format(increase=increase), run)

    assert [o.result for o in found.outcomes] == [result, "ok"]
    assert (found.outcomes[0].value, found.outcomes[0].baseline) == (440, 400)
    assert "= 440 ns, baseline 400 ns (+10.0%); limit: max_increase" in found.outcomes[0].message


CHANGES = """
    [[rule]]
    name = "step time"
    analysis = "steps"
    column = "length_ns"
    aggregate = "median"
    max_increase = "1 %"

    [[rule]]
    name = "beyond noise"
    analysis = "steps"
    column = "length_ns"
    aggregate = "median"
    max_increase = "noise"

    [[rule]]
    name = "significant"
    compare = "step"
    sql = "SELECT coalesce(max(relative), 0) FROM rows WHERE verdict = 'slower'"
    max = "2 %"
    """


def results(
    new: Path, *baselines: Path, folder: Path, accept: bool = False
) -> dict[str, tuple[str, float | None]]:
    rules = rules_file(folder, CHANGES)
    found = traceweave.check(new, rules, baseline=baselines, accept_differences=accept)
    return {one.rule.name: (one.result, one.noise) for one in found.outcomes}


def test_noise_is_the_prediction_limit_of_one_more_recording() -> None:
    # Student's t at 95 %, one-sided: 6.314 for one degree of freedom, 2.132 for four
    assert noise_of([100, 110]) == pytest.approx(6.3138 * math.sqrt(50) * math.sqrt(1.5), rel=1e-4)
    assert noise_of([1, 2, 3, 4, 5]) == pytest.approx(2.1318 * math.sqrt(2.5 * 1.2), rel=1e-4)
    assert (noise_of([7, 7]), noise_of([7]), noise_of([])) == (0, None, None)


@nightly
def test_a_run_like_its_baselines_passes_and_the_straggler_fails(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    balanced = database_of(fixtures / "ddp_gloo_4ranks")
    late = database_of(fixtures / "ddp_gloo_straggler")

    equal = results(late, balanced, balanced, folder=tmp_path)
    results_of_equal = [("crossed", None), ("skipped", None), ("crossed", None)]
    assert list(equal.values()) == results_of_equal, "the same recording twice tells no noise"
    one = results(late, balanced, folder=tmp_path)
    assert one["beyond noise"] == ("skipped", None), "one recording does not tell its noise"
    both = results(late, balanced, late, folder=tmp_path)
    assert [result for result, _ in both.values()] == ["ok", "ok", "cannot tell"]


@nightly
def test_recordings_of_one_job_differ_by_their_noise(
    corpus: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    # the job was recorded three times: steps of 205 and 227 ms, and once of 1,210 ms
    two = corpus / "kineto" / "torchrec_two_runs_in_one_folder"
    slow, usual = (database_of(*sorted(two.glob(f"*_{pid}*"))) for pid in ("24", "26"))
    other = database_of(corpus / "kineto" / "torchrec_4")

    alone = results(usual, other, folder=tmp_path)
    among = results(usual, other, slow, folder=tmp_path)
    worse = results(slow, other, usual, folder=tmp_path)

    assert alone["step time"][0] == "crossed", "it took 11 % longer than one other recording"
    assert [result for result, _ in among.values()] == ["ok"] * 3
    assert [result for result, _ in worse.values()] == ["crossed"] * 3
    spread = (226_651_000 - 204_750_000) / math.sqrt(2)
    assert worse["step time"][1] == pytest.approx(6.3138 * math.sqrt(1.5) * spread, rel=0.02)


@pytest.mark.parametrize(
    ("sql", "behind"),
    [
        ("SELECT sum(idle_ns) / sum(window_ns) FROM rows", ('SELECT * FROM "rows"', "idle_ns")),
        ("SELECT count(*) FROM gpu_ops WHERE rank = 1",
         ('SELECT * FROM gpu_ops WHERE (rank = 1)', "")),
        ("SELECT count(*) FILTER (WHERE rank = 1) FROM gpu_ops", None),
        ("SELECT max(n) FROM (SELECT count(*) AS n FROM gpu_ops GROUP BY name)", "n"),
        ("SELECT count(*) FROM gpu_ops GROUP BY rank HAVING rank = 1", None),
        ("SELECT 7", None),
        ("SELECT 1 UNION SELECT 1", None),
    ],
)  # fmt: skip
def test_a_rule_in_sql_is_about_the_rows_of_its_from(sql: str, behind: object) -> None:
    with duckdb.connect() as con:
        found = rows_behind(con, sql)
    assert behind in (found, found and found[1])


def test_a_failing_rule_in_sql_names_its_rows(
    run: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    found = checked(
        run,
        tmp_path,
        """
        [[rule]]
        name = "kernels"
        sql = "SELECT count(*) FROM gpu_ops WHERE name = 'gemm'"
        max = 9

        [[rule]]
        name = "share"
        analysis = "breakdown"
        sql = "SELECT sum(exposed_comm_ns) / sum(window_ns) FROM rows WHERE rank = 1"
        max = "1 %"
        """,
    )

    kernels, share = (outcome.where for outcome in found.outcomes)
    assert kernels.startswith("gemm, rank 0, step 0: 1 row; gemm, rank 0, step 1: 1 row;")
    assert kernels.endswith("and 7 more rows")
    assert share.startswith("rank 1, step 0: 200 ns; ")


@nightly
def test_rules_may_ask_what_compare_tests(run: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("compare = 'kernel'\ncolumn = 'item'", "no table 'kernel'; did you mean 'kernels'?"),
        ("compare = 'x'\ncolumn = 'item'", "compare has no table 'x'; available: budget, "),
        (
            "compare = 'step'\nanalysis = 'breakdown'\ncolumn = 'new_ns'",
            "give one of analysis, compare, what_if",
        ),
        ("compare = 'step'\ncolumn = 'new_ns'\nmax_increase = 1", "max_increase makes no sense"),
        (
            "compare = 'step'\ncolumn = 'none_such'",
            "step has no column 'none_such'; it has sample,",
        ),
    ],
)
def test_what_cannot_be_asked_of_a_comparison_is_said(
    run: duckdb.DuckDBPyConnection, tmp_path: Path, keys: str, message: str
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


def another_gpu(build: Builder) -> None:
    build.con.execute("UPDATE base.rank_sources SET gpu_name = 'B'")


def one_gpu(build: Builder) -> None:
    build.con.execute("UPDATE base.rank_sources SET gpu_name = 'A'")


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
def test_a_rule_says_which_change_of_the_step_counts(
    run: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
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
        "ok",
        "crossed",
        "no value",
    }
    # a step of the V100 takes longer
    assert code == 1


def test_what_needs_a_baseline_is_skipped_without_one(
    run: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
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


@pytest.mark.parametrize(("optional", "ok"), [("false", False), ("true", True)])
def test_a_number_that_the_run_lacks_fails_unless_it_is_optional(
    run: duckdb.DuckDBPyConnection, tmp_path: Path, optional: str, ok: bool
) -> None:
    found = checked(
        run,
        tmp_path,
        f"""
        [[rule]]
        name = "memory"
        analysis = "memory"
        column = "peak_allocated_bytes"
        aggregate = "max"
        optional = {optional}
        max = "1 GB"

        [[rule]]
        name = "holds"
        sql = "SELECT 1"
        max = 1
        """,
    )

    assert [(o.result, o.value) for o in found.outcomes] == [("no value", None), ("ok", 1)]
    assert found.ok is ok
    [suite] = ET.fromstring(junit_xml(found, "run"))
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == (("0", "1") if ok else ("1", "0"))
    assert [child.tag for child in suite[0]] == ["skipped" if ok else "failure"]
    assert suite[0][0].attrib["message"] == (
        "max of memory.peak_allocated_bytes = - (no rows; memory needs memory events:"
        " profile_memory=True of the PyTorch profiler, or --cuda-memory-usage=true of nsys);"
        " limit: max 1 GB"
    )


GIVES_NULL = "the query gives NULL"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('sql = "SELECT NULL::INTEGER"', GIVES_NULL),
        ("sql = \"SELECT 'nan'::DOUBLE\"", "it is NaN"),
        ('analysis = "steps"\nsql = "SELECT max(step) FROM rows WHERE step > 9"', GIVES_NULL),
        ('analysis = "steps"\ncolumn = "ranks"\nwhere = "ranks > 9"', "no row is like that"),
        ('compare = "memory"\ncolumn = "base_bytes"', "no rows"),
        ('analysis = "data_loading"\ncolumn = "loads"', "loads is NULL in all 10 rows"),
        (
            'analysis = "data_loading"\ncolumn = "loads"\nwhere = "step = 1 AND rank = 0"',
            "loads is NULL in the only row",
        ),
    ],
)
def test_a_number_that_is_not_there_says_why(
    run: duckdb.DuckDBPyConnection, tmp_path: Path, body: str, why: str
) -> None:
    [outcome] = checked(run, tmp_path, f"{HEAD}max = 1\n{body}", run).outcomes

    assert (outcome.result, outcome.crossed, outcome.missing) == ("no value", True, why)
    assert f"= - ({why}); limit: max 1" in outcome.message


def test_a_baseline_without_the_number_says_why(
    run: duckdb.DuckDBPyConnection, empty_run: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    rule = 'sql = "SELECT max(rank) FROM ranks"\nmax_increase = 1\nmax = 9'
    change, value = checked(run, tmp_path, HEAD + rule, empty_run).outcomes[::-1]

    assert (value.result, value.missing) == ("ok", "")
    assert (change.result, change.missing) == ("no value", "baseline: the query gives NULL")


COMPUTE = '[[rule]]\nname = "compute"\nanalysis = "breakdown"\ncolumn = "compute_ns"\n'
HEAD = '[[rule]]\nname = "r"\n'


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


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('sql = "SELECT 1, 2"', "one row with one column; it gives 1 row with 2 columns"),
        ('sql = "SELECT 1 WHERE false"', "it gives 0 rows"),
        ("sql = \"SELECT 'a'\"", "is not a number: 'a'"),
        ('sql = "DROP TABLE groups"', "has to be one SELECT"),
        ('sql = "SELECT 1; SELECT 2"', "has to be one SELECT"),
        ('sql = "SELECT nothing"', "rule 'r': Referenced column"),
        ('analysis = "nope"\ncolumn = "a"', "rule 'r': no such analysis: 'nope'"),
        ('analysis = "steps"\ncolumn = "a"', "steps has no column 'a'; it has step"),
        ('analysis = "steps"\ncolumn = "step"\nwhere = "nothing"', "rule 'r': Referenced column"),
        (
            'analysis = "gaps"\ncolumn = "rank"\nparams = { x = 1 }',
            "'r': gaps has no parameter 'x'",
        ),
    ],
)
def test_a_number_that_cannot_be_asked_is_said(
    run: duckdb.DuckDBPyConnection, tmp_path: Path, body: str, message: str
) -> None:
    with pytest.raises(TraceweaveError, match=message) as raised:
        checked(run, tmp_path, f"{HEAD}max = 1\n{body}")
    assert isinstance(raised.value, UsageError | QueryError)
    assert "\n" not in str(raised.value)


def test_junit_has_a_case_per_limit(run: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    text = '[[rule]]\nname = "a <b> \\u0007"\nsql = "SELECT 5"\nmax = 4\nmin = 1\n'
    document = ET.fromstring(junit_xml(checked(run, tmp_path, text), "run & co"))

    [suite] = document
    assert suite.attrib == {
        "name": "traceweave check run & co",
        "tests": "2",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    cases = {case.attrib["name"]: [child.tag for child in case] for case in suite}
    assert cases == {"a <b> �: max 4": ["failure"], "a <b> �: min 1": ["system-out"]}
    assert suite[0][0].attrib == {"message": "SELECT 5 = 5; limit: max 4", "type": "crossed"}


@pytest.fixture
def databases(fixtures: Path, database_of: Callable[..., Path]) -> tuple[Path, Path]:
    return database_of(fixtures / "ddp_gloo_4ranks"), database_of(fixtures / "ddp_gloo_straggler")


def test_the_example_stops_the_straggler(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, new = databases
    junit = tmp_path / "check.xml"
    arguments = ["check", str(new), "--rules", str(EXAMPLE), "--baseline", str(base)]

    code = main([*arguments, "--junit", str(junit)])

    out, err = capsys.readouterr()
    assert code == 1
    assert err == (
        "step time: rank 1: 88.05 ms, was 43.67 ms (+101.6%); rank 2: 86.89 ms, was 44.47 ms"
        " (+95.4%); rank 3: 86.71 ms, was 46.57 ms (+86.2%)\n"
        "exposed communication: rank 1: 73.21 ms, was 24.58 ms (+197.8%); rank 0: 73.20 ms, was"
        " 26.54 ms (+175.8%); rank 3: 69.68 ms, was 26.17 ms (+166.3%)\n"
        "peak memory: no value: no rows; memory needs memory events: profile_memory=True of the"
        " PyTorch profiler, or --cuda-memory-usage=true of nsys\n"
        "6 limits: 3 ok, 2 failed (step time, exposed communication), 1 skipped\n"
        f"wrote {junit}\n"
    )
    assert out.startswith("Comparable with care: memory events recorded in base only")
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "crossed" in lines["step time"]
    assert "ok" in lines["nothing was lost at ingest"]
    assert ET.parse(junit).getroot().attrib["failures"] != "0"


@nightly
def test_a_run_beside_itself_passes(
    databases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    base, _ = databases
    code = main(["check", str(base), "--rules", str(EXAMPLE), "--baseline", str(base)])

    assert code == 0
    assert "crossed" not in capsys.readouterr().out


def test_a_wrong_rules_file_ends_with_code_2(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["check", str(databases[0]), "--rules", str(tmp_path / "none.toml")])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert (
        err
        == f"traceweave: error: {tmp_path}/none.toml: cannot be read: No such file or directory\n"
    )


WORTH = """
[[rule]]
name = "loading data costs nothing"
what_if = "kind=data_loading times=0"
column = "gain_ns"
max = "2 ms"

[[rule]]
name = "loading data costs nothing, as a share"
what_if = "kind=data_loading times=0"
sql = "SELECT gain_ns / measured_step_ns FROM rows"
max = "5 %"
"""


def test_a_rule_limits_what_fixing_something_would_be_worth(
    databases: tuple[Path, Path], tmp_path: Path
) -> None:
    rules = rules_file(tmp_path, WORTH)
    usual, straggler = (traceweave.check(path, rules) for path in databases)
    # four ranks load data in less than 0.1 ms; of the others one sleeps 40 ms
    assert [outcome.result for outcome in usual.outcomes] == ["ok", "ok"]
    assert [outcome.result for outcome in straggler.outcomes] == ["crossed", "crossed"]
    assert "what-if 'kind=data_loading times=0'.gain_ns = 3" in straggler.outcomes[0].message


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('what_if = "faster"\ncolumn = "gain_ns"', "is not KEY=VALUE"),
        ('what_if = "kind=copy times=0"\ncolumn = "gain"', "what_if has no column 'gain'; did you"),
        ('what_if = "kind=copy times=0"\nanalysis = "gaps"\ncolumn = "gain_ns"', "give one of"),
        (
            'what_if = "kind=copy times=0"\ncolumn = "gain_ns"\nparams = { a = 1 }',
            "params makes no sense for what_if",
        ),
    ],
)
def test_a_scenario_that_makes_no_sense_is_refused(tmp_path: Path, keys: str, message: str) -> None:
    rules = rules_file(tmp_path, f'[[rule]]\nname = "worth"\nmax = 1\n{keys}\n')
    with pytest.raises(UsageError, match=re.escape(message)):
        read_rules(rules)


def test_a_failure_names_the_kernels_and_ranks_of_a_slow_gpu(
    corpus: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    database = database_of(corpus / "kineto" / "megatron_tp2")
    rules = rules_file(
        tmp_path,
        """
        [[rule]]
        name = "no long kernel"
        analysis = "kernels"
        column = "max_ns"
        aggregate = "max"
        max = "1 us"

        [[rule]]
        name = "idle"
        analysis = "breakdown"
        column = "idle_ns"
        aggregate = "max"
        max = 0
        """,
    )

    found = traceweave.check(database, rules)

    with traceweave.open(database) as run:
        longest = run.sql("FROM kernels() ORDER BY max_ns DESC LIMIT 1")["kernel"][0]
        most_idle = run.sql("FROM breakdown() ORDER BY idle_ns DESC LIMIT 1")["rank"][0]
    assert found.outcomes[0].where.startswith(longest[:20])
    assert found.outcomes[1].where.startswith(f"rank {most_idle}, step ")
    assert found.outcomes[1].where in found.outcomes[1].message


def test_failures_are_annotated_for_github_and_gitlab(
    run: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    hostile = (
        HEAD
        + """sql = '''
    SELECT 1 -- 100 %
    '''
    max = 0
    """
    )
    found = checked(run, tmp_path, hostile + COMPUTE + "max_increase = 1\n")

    lines = github(found, Path("rules.toml")).splitlines()
    assert lines == [
        "::error file=rules.toml,line=1,title=traceweave check%3A r::SELECT 1 -- 100 %25 = 1;"
        " limit: max 0",
        "::notice file=rules.toml,line=7,title=traceweave check%3A compute::mean of"
        " breakdown.compute_ns: skipped, there is no baseline to compare with; limit:"
        " max_increase 1",
        "::notice title=traceweave check::2 limits: 0 ok, 1 failed (r), 1 skipped",
    ]
    [issue] = json.loads(gitlab(found, Path("rules.toml")))
    assert issue["description"] == "r: SELECT 1 -- 100 % = 1; limit: max 0"
    assert issue["location"] == {"path": "rules.toml", "lines": {"begin": 1}}
    assert issue["severity"] == "major"


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_annotations_are_written_where_they_are_wanted(
    databases: tuple[Path, Path], tmp_path: Path, service: str
) -> None:
    target = tmp_path / "remarks"

    code = main(
        ["check", str(databases[1]), "--rules", str(EXAMPLE), "--annotations", service, str(target)]
    )

    assert code == 0
    text = target.read_text()
    assert text == "[]\n" if service == "gitlab" else text.count("::notice") > 1


@nightly
def test_starter_rules_hold_for_their_run_and_fail_for_a_slower_one(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, straggling = (str(database) for database in databases)
    rules = tmp_path / "rules.toml"

    assert main(["check", base, "--rules", str(rules), "--init"]) == 0
    assert main(["check", base, "--rules", str(rules)]) == 0
    assert main(["check", straggling, "--rules", str(rules)]) == 1

    err = capsys.readouterr().err
    assert "steps are not significantly slower: skipped, there is no baseline" in err
    assert "failed (step time" in err
    before = rules.read_text()
    assert main(["check", base, "--rules", str(rules), "--init"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert rules.read_text() == before


@pytest.fixture
def torchrec(corpus: Path, database_of: Callable[..., Path]) -> Path:
    return database_of(corpus / "kineto" / "torchrec_4")


def slower_rank(traces: Path, folder: Path, rank: int, times: float) -> Path:
    """Return the run of traces in which all compute kernels of a rank take longer."""
    folder = folder / "slower"
    folder.mkdir()
    for path in sorted(traces.glob("*.gz")):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        if trace["distributedInfo"]["rank"] == rank:
            for event in trace["traceEvents"]:
                if event.get("cat") == "kernel" and "nccl" not in event["name"].lower():
                    event["dur"] *= times
        (folder / path.name).write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    target = folder / "slower.duckdb"
    traceweave.ingest([folder], target)
    return target


def starter(database: Path, folder: Path) -> Path:
    path = folder / "starter.toml"
    with traceweave.open(database) as run:
        path.write_text(run.starter_rules())
    return path


@nightly
def test_starter_rules_stop_a_rank_whose_kernels_are_slower(
    corpus: Path, torchrec: Path, tmp_path: Path
) -> None:
    rules = starter(torchrec, tmp_path)
    slow = slower_rank(corpus / "kineto" / "torchrec_4", tmp_path, rank=1, times=1.1)

    same = traceweave.check(torchrec, rules, baseline=torchrec)
    found = traceweave.check(slow, rules, baseline=torchrec)

    assert same.ok
    crossed = {one.rule.name: one.where for one in found.outcomes if one.crossed}
    assert list(crossed) == ["ranks with slow kernels", "slowest rank's kernels beside the usual"]
    finding, kernels = crossed.values()
    assert finding.startswith("slow_kernels, rank 1: The same kernels take 10.3% longer on rank 1")
    assert kernels == "rank 1: 1.095, was 1 (+9.5%)"
    assert not traceweave.check(slow, rules).ok, "the finding needs no baseline"


@nightly
def test_starter_rules_call_no_rank_slow_in_another_recording_of_the_job(
    corpus: Path, database_of: Callable[..., Path], torchrec: Path, tmp_path: Path
) -> None:
    two = corpus / "kineto" / "torchrec_two_runs_in_one_folder"
    rules = starter(torchrec, tmp_path)
    for pid in ("24", "26"):
        again = database_of(*sorted(two.glob(f"*_{pid}*")))
        found = traceweave.check(again, rules, baseline=torchrec)
        results = {one.rule.name: one.result for one in found.outcomes}
        assert results["ranks with slow kernels"] == "ok"
        assert results["slowest rank's kernels beside the usual"] == "ok"
        assert results["ranks recorded"] == "ok"


@nightly
def test_starter_rules_miss_a_rank(
    corpus: Path, database_of: Callable[..., Path], torchrec: Path, tmp_path: Path
) -> None:
    three = database_of(*sorted((corpus / "kineto" / "torchrec_4").glob("*.gz"))[:3])
    found = traceweave.check(three, starter(torchrec, tmp_path))

    [missing] = [one for one in found.outcomes if one.crossed]
    assert missing.rule.name == "ranks recorded"
    assert missing.message == ("SELECT count(*) FROM ranks = 3; limit: min 4; there are ranks 0-2")


def test_a_comparison_that_cannot_tell_is_not_ok(torchrec: Path, tmp_path: Path) -> None:
    # three steps of 205, 205 and 395 ms
    rules = rules_file(
        tmp_path,
        HEAD
        + "compare = 'step'\nsql = \"SELECT count(*) FROM rows WHERE verdict = 'slower'\"\nmax=0",
    )
    found = traceweave.check(torchrec, rules, baseline=torchrec)

    [outcome] = found.outcomes
    assert (outcome.result, found.ok) == ("cannot tell", True)
    assert outcome.message.endswith(
        "cannot tell: the difference of 3 and 3 steps is known to ±300 ms; record more"
    )
    assert found.summary == "1 limit: 0 ok, 0 failed, 1 cannot tell (r), 0 skipped"
    assert github(found, rules).startswith("::notice file=")
    suite = ET.fromstring(junit_xml(found, "run"))[0]
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("0", "1")


def test_a_comparison_that_can_tell_is_ok(run: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    rule = "compare = 'step'\nsql = \"SELECT count(*) FROM rows WHERE verdict = 'slower'\"\nmax = 0"
    rule += "\nsmallest_change = '5 %'"
    with run_of(lengths=(1500, 1012, 992, 1002, 700)) as new:
        assert [one.result for one in checked(new, tmp_path, HEAD + rule, run).outcomes] == ["ok"]


def test_nothing_checked_is_a_failure(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = rules_file(tmp_path, COMPUTE + "max_increase = 1\n")

    assert main(["check", str(databases[0]), "--rules", str(rules)]) == 1

    err = capsys.readouterr().err
    assert "1 limit: 0 ok, 0 failed, 1 skipped; nothing was checked, which is a failure" in err
    found = traceweave.check(databases[0], rules)
    assert github(found, rules).splitlines()[-1].startswith("::error title=traceweave check::")


@nightly
def test_noise_of_what_is_not_comparable_fails(tmp_path: Path) -> None:
    parsed = read_rules(rules_file(tmp_path, COMPUTE + 'max_increase = "noise"\n'))
    with run_of(change=one_gpu) as base, run_of(change=another_gpu) as new:
        [outcome] = check_run(new, parsed, baselines=[base]).outcomes
        [accepted] = check_run(new, parsed, baselines=[base], accept_differences=True).outcomes
    assert (outcome.result, outcome.crossed) == ("not comparable", True)
    assert accepted.result == "skipped"


@nightly
def test_the_same_recording_twice_tells_no_noise(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, copy = databases[0], tmp_path / "copy.duckdb"
    shutil.copy(base, copy)
    rules = rules_file(tmp_path, COMPUTE + 'max_increase = "noise"\nmax = "1 s"\n')

    found = traceweave.check(databases[1], rules, baseline=[base, copy])

    assert [(one.result, one.noise) for one in found.outcomes] == [("ok", None), ("skipped", None)]
    assert found.outcomes[1].missing == (
        "skipped, the same recording twice tells no noise: give another one"
    )
    baselines = ["--baseline", str(base), "--baseline", str(copy)]
    assert main(["check", str(databases[1]), "--rules", str(rules), *baselines]) == 0
    assert "baseline 2 is left out: it is the same recording as baseline 1" in (
        capsys.readouterr().err
    )


def test_a_change_is_named_with_what_it_was(run: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    rule = 'analysis = "kernels"\ncolumn = "total_ns"\naggregate = "sum"\nmax_increase = "5 %"'
    with run_of(gemm=440) as slower:
        [outcome] = checked(slower, tmp_path, HEAD + rule, run).outcomes
    assert outcome.where.startswith("gemm: 4.400 us, was 4.000 us (+10.0%)")


def test_a_truncated_file_is_named_and_the_good_ones_are_not(
    corpus: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    first, second, *_ = sorted((corpus / "kineto" / "torchrec_4").glob("*.gz"))
    folder = tmp_path / "cut"
    folder.mkdir()
    shutil.copy(first, folder)
    whole = gzip.decompress(second.read_bytes())
    (folder / second.name).write_bytes(gzip.compress(whole[: len(whole) // 2]))
    rule = 'sql = "SELECT coalesce(sum(events_skipped), 0) FROM sources"\nmax = 0\n'

    database = tmp_path / "cut.duckdb"
    traceweave.ingest([folder], database)
    found = traceweave.check(database, rules_file(tmp_path, HEAD + rule))

    assert found.outcomes[0].where == f"{second.name}: 1"


def test_annotations_name_the_line_of_their_rule(
    run: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    found = checked(run, tmp_path, HEAD + 'sql = "SELECT 1"\nmax = 1\n\n' + COMPUTE + "max = 0\n")

    assert "rules.toml,line=6,title" in github(found, Path("rules.toml"))
    [issue] = json.loads(gitlab(found, Path("rules.toml")))
    assert issue["location"]["lines"] == {"begin": 6}


def test_annotations_of_both_services_are_written(
    databases: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    quality = tmp_path / "quality.json"
    arguments = ["check", str(databases[1]), "--rules", str(EXAMPLE)]
    arguments += ["--annotations", "gitlab", str(quality), "--annotations", "github"]

    assert main([*arguments, "/dev/stderr"]) == 0
    assert "::notice title=traceweave check::" in capfd.readouterr().err
    assert json.loads(quality.read_text()) == []
    assert main([*arguments, "-"]) == 0
    assert "::notice title=traceweave check::" in capfd.readouterr().out
    assert not Path("-").exists()


@nightly
def test_annotations_on_stderr_leave_the_log_as_it_is(
    databases: tuple[Path, Path], tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    log.write_text("before\n")
    command = [sys.executable, "-m", "traceweave", "check", str(databases[1])]
    command += ["--rules", str(EXAMPLE), "--annotations", "github", "/dev/stderr"]
    with log.open("a") as file:
        subprocess.run(command, stdout=file, stderr=file, check=True)

    lines = log.read_text().splitlines()
    assert lines[0] == "before"
    assert any(line.startswith("::notice title=traceweave check::") for line in lines)
    assert any(line.startswith("6 limits: ") for line in lines)


def test_errors_of_sql_name_the_rules_file(run: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(QueryError) as raised:
        checked(run, tmp_path, HEAD + 'sql = "SELECT nothing"\nmax = 1')
    assert str(raised.value).startswith(f"{tmp_path / 'rules.toml'}: rule 'r': Referenced column")
