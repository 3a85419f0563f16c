"""What rules measure: columns of analyses, SQL, scenarios; numbers that are not there."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from duckdb import DuckDBPyConnection as Connection

import traceweave
from tests.cases import cases
from tests.checks.asking import HEAD, checked, rules_file
from tests.marks import first_at_once
from traceweave.checks import junit_xml
from traceweave.checks.counted import rows_behind
from traceweave.errors import QueryError, TraceweaveError, UsageError


def test_columns_of_analyses_and_sql_are_measured(run: Connection, tmp_path: Path) -> None:
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
    # of SQL the name is said, not the statement
    assert found.outcomes[4].message == "idle share = 19.2%; limit: max 20 %"


def test_percentiles_are_the_nearest_rank_as_in_the_analyses(
    run: Connection, tmp_path: Path
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


@cases
def test_a_rule_in_sql_is_about_the_rows_of_its_from(sql: str, behind: object) -> None:
    with duckdb.connect() as con:
        found = rows_behind(con, sql)
    assert behind in (found, found and found[1])


def test_a_failing_rule_in_sql_names_its_rows(run: Connection, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("optional", "ok"), [("false", False), ("true", True)])
def test_a_number_that_the_run_lacks_fails_unless_it_is_optional(
    run: Connection, tmp_path: Path, optional: str, ok: bool
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


@first_at_once(2)
@cases
def test_a_number_that_is_not_there_says_why(
    run: Connection, tmp_path: Path, body: str, why: str
) -> None:
    [outcome] = checked(run, tmp_path, f"{HEAD}max = 1\n{body}", run).outcomes
    assert (outcome.result, outcome.crossed, outcome.missing) == ("no value", True, why)
    assert f"= - ({why}); limit: max 1" in outcome.message


@cases
def test_a_number_that_cannot_be_asked_is_said(
    run: Connection, tmp_path: Path, body: str, message: str
) -> None:
    with pytest.raises(TraceweaveError, match=message) as raised:
        checked(run, tmp_path, f"{HEAD}max = 1\n{body}")
    assert isinstance(raised.value, UsageError | QueryError)
    assert "\n" not in str(raised.value)


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
