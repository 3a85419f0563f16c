"""What holds for every analysis: its header is the truth, and somebody tests it."""

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.cases import cases
from tests.marks import at_once, nightly
from tests.tables import empty_database
from traceweave.analyses import Analysis, analysis_relation, catalog, catalog_markdown, find, run
from traceweave.analyses.catalog import TOPICS, Library, parse, rules, shared
from traceweave.analyses.parameters import Parameter
from traceweave.analyses.question import Question
from traceweave.analyses.rules import RULE_COLUMNS, RULE_TOPICS, Rule
from traceweave.analyses.runner import create_named, definitions, materialize, prepare
from traceweave.analyses.statements import Statement
from traceweave.analyses.table_macros import relations
from traceweave.errors import QueryError, UsageError
from traceweave.store.empty import create_tables
from traceweave.store.schema import create_macros as create_store_macros
from traceweave.store.schema import public_relations

pytestmark = pytest.mark.usefixtures("all_planned")

every_analysis = pytest.mark.parametrize("analysis", catalog(), ids=lambda a: a.name)
STATEMENTS: list[Statement] = [*catalog(), *shared(), *rules()]


def each(statements: list[Statement]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("statement", statements, ids=lambda s: f"{s.kind}_{s.name}")


every_statement = each(STATEMENTS)
every_rule = pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)

HEADER = Path(__file__).with_name("header.sql").read_text(encoding="utf-8")


def _statement(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))


@every_statement
def test_its_parameters_are_those_of_its_template_and_of_what_it_reads(
    statement: Statement, read_only_run: duckdb.DuckDBPyConnection
) -> None:
    [only] = duckdb.extract_statements(prepare(read_only_run, statement, {}))
    assert only.type == duckdb.StatementType.SELECT
    asked = [one.name for one in statement.template.asked if one.function == "param"]
    parts = [part for part in statement.parts if part.kind != "analysis"]
    taken = [parameter.name for part in parts for parameter in part.parameters]
    # what Python makes its rows of may ask for one that the statement does not
    of_python = ["replay_ops"] if statement.through not in ("", "selected_ops") else []
    names = [parameter.name for parameter in statement.parameters]
    assert sorted(names) == sorted({*asked, *taken, *of_python})


@each([statement for statement in STATEMENTS if statement.parameters])
def test_its_parameters_are_described(statement: Statement) -> None:
    for parameter in statement.parameters:
        assert parameter.meaning
        allowed = [value for value, _ in parameter.choices]
        assert not allowed or parameter.default in allowed


@pytest.mark.parametrize("part", shared(), ids=lambda part: part.name)
def test_shared_rows_have_the_columns_of_their_header(
    part: Statement, read_only_run: duckdb.DuckDBPyConnection
) -> None:
    result = read_only_run.table(materialize(read_only_run, part, part.bind({})))
    got = list(zip(result.columns, map(str, result.types), strict=True))
    assert got == [(column.name, column.type) for column in part.columns]
    assert all(column.meaning for column in part.columns)


@every_rule
def test_a_rule_gives_columns_of_findings_and_is_described(
    rule: Rule, read_only_run: duckdb.DuckDBPyConnection
) -> None:
    result = read_only_run.table(materialize(read_only_run, rule, rule.bind({})))
    known = {column.name: column.type for column in RULE_COLUMNS}
    for name, type_ in zip(result.columns, map(str, result.types), strict=True):
        assert name in known
        assert name != "cost_ns" or type_ in ("DOUBLE", "BIGINT", "HUGEINT")
    assert {"evidence", "advice"} <= set(result.columns)
    assert rule.topic in RULE_TOPICS
    assert rule.summary
    assert rule.finds.endswith(".")
    assert find(rule.proof).name == rule.proof


@every_analysis
def test_its_columns_are_those_of_its_result_on_a_read_only_connection(
    analysis: Analysis, read_only_run: duckdb.DuckDBPyConnection
) -> None:
    result = run(read_only_run, analysis.name)
    got = list(zip(result.columns, map(str, result.types), strict=True))
    assert got == [(column.name, column.type) for column in analysis.columns]
    assert all(column.meaning for column in analysis.columns)
    # most on rows of other analyses that those left there
    assert result.fetchall() == []


@pytest.fixture
def only_what_is_read(analysis: Analysis) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with nothing in it but an empty table for each relation that it reads."""
    with empty_database() as con:
        create_store_macros(con)
        for relation in public_relations():
            if relation.name in relations(analysis):
                columns = ", ".join(f'"{column.name}" {column.type}' for column in relation.columns)
                con.execute(f"CREATE TABLE {relation.name} ({columns})")
        yield con


@pytest.mark.parametrize(
    "analysis",
    at_once(catalog(), *(a for a in catalog() if a.name == "groups")),
    ids=lambda a: str(a.name),
)
def test_it_needs_what_it_reads_and_nothing_else(
    analysis: Analysis, only_what_is_read: duckdb.DuckDBPyConnection
) -> None:
    assert run(only_what_is_read, analysis.name).fetchall() == []
    for relation in relations(analysis):
        only_what_is_read.execute(f"ALTER TABLE {relation} RENAME TO away")
        with pytest.raises(QueryError, match=relation):
            run(only_what_is_read, analysis.name)
        only_what_is_read.execute(f"ALTER TABLE away RENAME TO {relation}")


@every_analysis
def test_its_rows_come_in_the_order_of_its_header(analysis: Analysis) -> None:
    last = _statement(analysis.sql).strip().rpartition("ORDER BY ")[2]
    terms = [re.sub(r"^\w+\.", "", term) for term in last.split(", ")]
    assert ", ".join(terms) == analysis.order


@every_analysis
def test_it_is_described_in_full(analysis: Analysis) -> None:
    names = [column.name for column in analysis.columns]
    assert len(set(analysis.main)) == len(analysis.main)
    assert set(analysis.main) <= set(names)
    assert len(analysis.main) <= 13, "so many columns hardly fit a terminal"
    assert analysis.topic in TOPICS
    assert analysis.text("topic")
    assert analysis.grain
    assert analysis.order
    assert analysis.answers.endswith("?")
    proofs = (f"test_{analysis.name}.py", f"by_hand/{analysis.name}.cases")
    assert any((Path(__file__).parent / proof).is_file() for proof in proofs)


@pytest.fixture(scope="module")
def read_only_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    path = tmp_path_factory.mktemp("read_only") / "run.duckdb"
    with duckdb.connect(path) as con:
        create_tables(con)
    with duckdb.connect(path, read_only=True) as con:
        yield con


def test_every_macro_is_documented_and_there(empty_run: duckdb.DuckDBPyConnection) -> None:
    for _ in range(2):
        create_named(empty_run, definitions(), Question(empty_run))
    made = empty_run.execute(
        "SELECT function_name, parameters FROM duckdb_functions()"
        " WHERE starts_with(function_name, 'tw_') AND contains(function_type, 'macro') ORDER BY ALL"
    ).fetchall()
    package = resources.files("traceweave")
    files = [*package.joinpath("analyses/macros").iterdir(), package.joinpath("replay/holds.sql")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    heads = re.findall(r"(?m)^-- (?:macro|rows): (\w+)\(([\w, ]*)\) \| \S", text)
    documented = [(name, takes.split(", ") if takes else []) for name, takes in heads]
    assert sorted(documented) == made
    tables = empty_run.execute(
        "SELECT table_name FROM duckdb_tables() WHERE temporary AND starts_with(table_name, 'tw_')"
    ).fetchall()
    assert sorted(re.findall(r"(?m)^-- table: (\w+) \| \S", text)) == sorted(n for (n,) in tables)


def test_the_headline_analyses_are_there_in_the_order_of_their_topics() -> None:
    names = [analysis.name for analysis in catalog()]
    assert {"breakdown", "gaps", "steps", "stragglers", "tails", "clock_quality"} <= set(names)
    assert names == sorted(names, key=lambda name: (TOPICS.index(find(name).topic), name))


def test_a_header_is_read_as_it_is_written() -> None:
    analysis = parse("sizes", HEADER)
    assert analysis.parameters == (
        Parameter("unit", "VARCHAR", "b", "what to count in", (("b", "bytes"), ("k", "thousands"))),
        Parameter("least", "BIGINT", 10, "smallest"),
        Parameter("share", "DOUBLE", 0.5, "part"),
        Parameter("all", "BOOLEAN", False, "everything"),
        Parameter("rank", "BIGINT", None, "one rank"),
    )
    assert (analysis.summary, analysis.answers) == ("how large", "How large?")
    assert (analysis.grain, analysis.order) == ("one row", "size")
    assert [tuple(column) for column in analysis.columns] == [
        ("size", "BIGINT", "bytes, or thousands")
    ]
    assert analysis.caveats == ("rough.", "very.")
    assert analysis.main == ("size",)
    assert analysis.sql == HEADER


@cases
def test_a_malformed_header_is_refused(name: str, before: str, after: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse(name, HEADER.replace(before, after))


def test_a_bare_parameter_is_a_common_one() -> None:
    common = HEADER.replace("least BIGINT = 10 | smallest", "kernel_delay_ns")
    parameter = parse("sizes", common).parameters[1]
    assert (parameter.name, parameter.type, parameter.default) == (
        "kernel_delay_ns", "BIGINT", 30000,
    )  # fmt: skip
    with pytest.raises(UsageError, match="a line of the header is not '-- param: name TYPE"):
        parse("sizes", common.replace("kernel_delay_ns", "kernel_delay"))


@cases
def test_a_rule_says_what_of_a_timeline_it_is_about(
    shows: str, subject: tuple[str, str, str] | None
) -> None:
    own = {"late": f"-- rule: late | lateness\n-- shows: {shows}\nSELECT 1 AS cost_ns"}
    if subject is None:
        with pytest.raises(UsageError, match=r"late\.sql: a line of the header is not '-- shows:"):
            Library(own).read_own(Rule, "late", own["late"])
    else:
        assert Library(own).rules["late"].subject == subject


@cases
def test_times_and_sizes_may_have_a_unit(name: str, given: str, want: int) -> None:
    assert parse("sizes", HEADER.replace("least", name)).bind({name: given})[name] == want


@cases
def test_a_unit_that_does_not_fit_is_refused(name: str, given: object, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)):
        parse("sizes", HEADER.replace("least", name)).bind({name: given})


@cases
def test_parameters_are_taken_as_values_or_as_text(
    given: dict[str, object], want: dict[str, Any]
) -> None:
    defaults = {"unit": "b", "least": 10, "share": 0.5, "all": False, "rank": None}
    analysis = parse("sizes", HEADER)
    assert analysis.filled(analysis.bind(given)) == defaults | want


def test_what_is_given_as_it_is_anyway_makes_no_difference() -> None:
    assert parse("sizes", HEADER).bind({"unit": "b", "least": "10", "rank": 3}) == {"rank": 3}


@cases
def test_a_wrong_parameter_is_refused_with_the_way_out(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(QueryError) as error:
        parse("sizes", HEADER).bind(given)
    assert str(error.value) == message


def test_an_unknown_analysis_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError) as error:
        find("brakedown")
    assert str(error.value) == (
        "no such analysis: 'brakedown'; did you mean 'breakdown'?;"
        " 'traceweave analyze --list' or run.analyses() in Python lists them all"
    )
    with pytest.raises(UsageError) as error:
        find("quartz")
    assert str(error.value) == (
        "no such analysis: 'quartz';"
        " 'traceweave analyze --list' or run.analyses() in Python lists them all"
    )


def test_a_database_of_another_kind_is_refused_in_one_line() -> None:
    with duckdb.connect() as con:
        for ask in (run, analysis_relation):
            with pytest.raises(QueryError) as error:
                ask(con, "breakdown")
            assert str(error.value) == (
                "analysis breakdown cannot be run on this database:"
                " Table with name device_ops does not exist!"
            )


@nightly
def test_the_reference_page_names_every_parameter_and_column() -> None:
    page = catalog_markdown()
    for analysis in catalog():
        section = page.split(f"\n### {analysis.name}\n")[1].split("\n### ")[0]
        for parameter in analysis.parameters:
            default = "NULL" if parameter.default is None else parameter.default
            assert f"| `{parameter.name}` | {parameter.type} | `{default}` |" in section
        for column in analysis.columns:
            assert f"| `{column.name}` | {column.type} |" in section
        for caveat in analysis.caveats:
            assert caveat[1:] in section
