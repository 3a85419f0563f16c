"""A statement that says what it needs has no rows without, and is not planned then."""

from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection as Connection

import traceweave
from tests.analyses.builders import Builder, rows
from tests.analyses.emptiness import needs
from tests.cases import cases
from tests.marks import first_at_once, nightly
from tests.tables import empty_database
from traceweave import analyses
from traceweave.analyses.catalog import called, catalog, rules, shared
from traceweave.analyses.question import ROWS_OF
from traceweave.analyses.runner import materialize
from traceweave.analyses.statements import Statement
from traceweave.analyses.stored import pass_over
from traceweave.analyses.table_macros import as_macro
from traceweave.store.schema import public_relations

NEEDY = [one for one in (*catalog(), *shared(), *rules()) if one.fields.get("needs")]


def test_most_rules_need_something() -> None:
    assert len(NEEDY) > 60


@pytest.mark.parametrize("statement", NEEDY, ids=lambda one: f"{one.kind}_{one.name}")
def test_a_statement_has_no_rows_without_what_it_needs(statement: Statement) -> None:
    parts = {f"{part.kind}_{part.name}" for part in statement.needed_parts}
    assert statement.needed | parts
    assert len(statement.needed) + len(parts) == statement.text("needs").count(", ") + 1
    assert statement.needed <= ROWS_OF.keys()
    assert not statement.through
    assert statement.needed | parts <= needs(as_macro(statement))


@nightly
def test_a_relation_has_no_rows_without_those_of_its_table(empty_run: Connection) -> None:
    views = dict(empty_run.execute("SELECT view_name, sql FROM duckdb_views()").fetchall())
    public = {relation.name for relation in public_relations()}
    for relation, table in ROWS_OF.items():
        schema, _, name = table.partition(".")
        if schema == "main":  # it is a table itself
            assert relation == name
            continue
        wanted = {relation}
        while not any(f"{schema}.{name}" in views[one] for one in wanted):
            read = {found for one in wanted for found in needs(_select(views[one]))}
            wanted = {one for one in read if one in views}
            assert wanted, relation
        assert any(name in needs(_select(views[one])) for one in wanted)
        assert relation in public


def _select(view: str) -> str:
    return view.partition(" AS ")[2].rstrip(";")


@first_at_once(8)
@cases
def test_what_is_proved_holds(sql: str, needed: str) -> None:
    proved = needs(sql)
    assert proved == set(needed.split())
    for left_out in ("a", "b", "c"):
        with empty_database() as con:
            for name in ("a", "b", "c"):
                con.execute(f"CREATE TABLE {name} AS SELECT 1 AS x WHERE '{name}' <> '{left_out}'")
            found = con.execute(sql).fetchall()
        assert not (left_out in proved and found)


def test_what_has_no_rows_is_not_planned(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (0, 10))
    build.write()
    assert rows(build.con, "alpha_beta") == []
    assert rows(build.con, "pipeline") == []
    made = build.con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()
    assert not made


def test_what_is_needed_is_asked_for_before_the_rest(build: Builder) -> None:
    for rank in (0, 1):
        build.rank(rank)
        build.gpu(rank, (0, 10))
    build.write()
    rule = called("rule", "imbalance")
    assert rule.parts[0] not in rule.needed_parts  # its text asks for others first
    assert build.con.table(materialize(build.con, rule, {})).fetchall() == []
    made = build.con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()
    parts = {name.removeprefix("tw_rows_").rsplit("_", 1)[0] for (name,) in made}
    assert "turns" in parts
    assert not parts & {"blame", "given_work", "late_hosts"}


def test_what_a_run_has_since_is_found(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (0, 10))
    build.write()
    assert rows(build.con, "syncs") == []
    build.host(0, (0, 10), "cudaDeviceSynchronize", kind="runtime")
    assert len(rows(build.con, "syncs")) == 1


@pytest.mark.parametrize(
    ("trace", "names"),
    [("ddp_gloo_straggler", ["findings", "health"])]
    + [(trace, [one.name for one in catalog()]) for trace in ("pipeline_1f1b",)],
)
@nightly
def test_answers_are_those_of_statements_that_are_all_planned(
    request: pytest.FixtureRequest,
    fixtures: Path,
    database_of: Callable[..., Path],
    trace: str,
    names: list[str],
) -> None:
    path = database_of(fixtures / trace)

    def answers() -> list[object]:
        with traceweave.open(path) as run:
            pass_over(run.con)  # what ingest has kept
            made = [analyses.analysis_relation(run.con, name) for name in names]
            return [run.con.table(table).fetchall() for table in made]

    before = answers()
    request.getfixturevalue("all_planned")
    assert answers() == before
