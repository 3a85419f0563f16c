"""Asking a run one of the questions in the catalog.

An analysis may read the rows of another one: `FROM analysis_gaps(p_window := 'span')`, where each
value is a literal or a parameter of its own; `shared_` and `rule_` rows get its own values of the
parameters that they share. Such rows are computed once per question and set of values, into a
temporary table, which DuckDB spills to disk if memory is short. Further questions use them again
only where the database was opened read-only: then nothing can change it while it is open (fitting
the clocks again opens it for writing, which a reader's lock forbids). `made` is the set of tables
that are there for a question.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa

from traceweave.analyses.batches import Ranks, batch, divide, elsewhere
from traceweave.analyses.catalog import called, find, rules
from traceweave.analyses.common import forget_others, hold
from traceweave.analyses.inputs import INPUTS, THROUGH
from traceweave.analyses.parameters import Value
from traceweave.analyses.parsed import parsed
from traceweave.analyses.rules import union_of_rules
from traceweave.analyses.sentences import WRITERS, create_writer
from traceweave.analyses.statements import CALL, EVERY_RULE, Statement
from traceweave.analyses.stored import pass_over, restore, store, stored
from traceweave.analyses.sweeps import SWEEPS, create_sweep
from traceweave.errors import QueryError
from traceweave.interrupts import go_on
from traceweave.store.database import asked_of, first_line, unchanging
from traceweave.store.rows import registered
from traceweave.vocabulary import answered
from traceweave.words import name_ranks

_NAME = re.compile(r"\btw_\w+")
_COMMENT = re.compile(r"--[^\n]*")
_HEADER = re.compile(r"^(?=-- (?:macro|table): (\w+))", re.MULTILINE)
_TABLE = "-- table: "

_KEPT = """
SELECT table_name FROM duckdb_tables() WHERE temporary
UNION ALL
SELECT view_name FROM duckdb_views() WHERE temporary
"""

_FUNCTIONS = dict.fromkeys(SWEEPS, create_sweep) | dict.fromkeys(WRITERS, create_writer)
"""By name: what creates a function that statements call."""

_created: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()
"""The macros and functions that were created in a connection."""


def run(con: duckdb.DuckDBPyConnection, name: str, **params: object) -> duckdb.DuckDBPyRelation:
    """Run the analysis `name` on the database behind `con` and return its rows.

    Parameters that are not given have their default. The connection may be read-only; it keeps
    the shared macros (`tw_...`) and the rows of analyses that others read as temporary objects.
    Raises UsageError for an unknown analysis, QueryError for a wrong parameter or a database that
    the analysis cannot read.
    """
    analysis = find(name)
    values = analysis.bind(params)
    with _refusing(name):
        _check_rank(con, values)
        if _table_of(analysis, values) in stored(con) or divide(con, analysis):
            return con.table(materialize(con, analysis, values))
        sql, left = prepare(con, analysis, values)
        return con.sql(parsed(con, sql), params=left or None)


def analysis_relation(con: duckdb.DuckDBPyConnection, name: str, **params: object) -> str:
    """Return the name of the temporary table that holds the rows of an analysis, in its order.

    They are computed once, where other analyses that read them find them again. Raises what `run`
    does.
    """
    analysis = find(name)
    values = analysis.bind(params)
    with _refusing(name):
        _check_rank(con, values)
        return materialize(con, analysis, values)


def _check_rank(con: duckdb.DuckDBPyConnection, values: dict[str, Value]) -> None:
    """Raise QueryError for a rank that the run does not have."""
    if (rank := values.get("rank")) is None:
        return
    ranks = [number for (number,) in con.execute("SELECT DISTINCT rank FROM ranks").fetchall()]
    if rank not in ranks:
        has = f"it has {name_ranks(sorted(ranks))}" if ranks else "it has none"
        raise QueryError(f"parameter rank cannot be {rank}: no rank of this run, {has}")


def keep_answers(con: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Compute analyses, with the usual values of their parameters, and keep what they say and start
    from in the database behind `con`, which is written to disk; what it kept before is replaced.

    Raises what `run` does.
    """
    with unchanging(con):
        pass_over(con)
        for name in names:
            analysis_relation(con, name)
        store(con)


def shared_rows(con: duckdb.DuckDBPyConnection, name: str) -> duckdb.DuckDBPyRelation:
    """Return rows that several analyses start from (shared/`name`.sql), computed once for all.

    They are no answer by themselves; what is written beside the answers starts from them too.
    Raises QueryError if the database cannot be read.
    """
    part = called("shared", name)
    with _refusing(name):
        return con.table(materialize(con, part, part.bind({})))


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Raise QueryError, in one line, for what DuckDB has against an analysis."""
    try:
        yield
    except duckdb.Error as error:
        reason = first_line(error)
        raise QueryError(f"analysis {name} cannot be run on this database: {reason}") from error


def prepare(
    con: duckdb.DuckDBPyConnection,
    statement: Statement,
    values: dict[str, Value],
    made: set[str] | None = None,
) -> tuple[str, dict[str, Value]]:
    """Return the SQL of a statement, reading tables in place of other statements, and its
    parameters.

    Creates in `con` what it needs: macros, inputs made in Python, and those tables; `made` are the
    tables that were created for the same question.
    """
    made = _kept(con) if made is None else made
    hold(con, statement.reads, made)
    create_macros(con, statement.sql, made)
    for need in statement.needs:
        if f"tw_{need}" not in made:
            INPUTS[need](con)
        made.add(f"tw_{need}")

    def table(call: re.Match[str]) -> str:
        part = called(call[1], call[2])
        return materialize(con, part, _arguments(part, call[3], values), made)

    sql = CALL.sub(table, statement.sql)
    if EVERY_RULE in sql:
        found = {
            rule: materialize(con, rule, _arguments(rule, "", values), made) for rule in rules()
        }
        sql = sql.replace(EVERY_RULE, f"({union_of_rules(found)})")
    left = set(re.findall(r"\$(\w+)", sql))
    return sql, {name: value for name, value in values.items() if name in left}


def materialize(
    con: duckdb.DuckDBPyConnection,
    statement: Statement,
    values: dict[str, Value],
    made: set[str] | None = None,
) -> str:
    """Compute the rows of a statement into a temporary table and return its name.

    What a read-only database has been asked before is not computed again, nor what is in `made`.
    """
    go_on()
    made = _kept(con) if made is None else made
    name = _table_of(statement, values)
    if name not in made and not restore(con, statement, name):
        if batches := divide(con, statement):
            _write_batches(con, statement, values, batches, name)
        elif statement.through:
            _write_through(con, statement, values, made, name)
        else:
            sql, left = prepare(con, statement, values, made)
            create = f"CREATE OR REPLACE TEMP TABLE {name} AS\n{sql}"
            con.execute(parsed(con, create), left or None).fetchall()
    made.add(name)
    return name


def _table_of(statement: Statement, values: dict[str, Value]) -> str:
    asked = repr((statement.kind, sorted(values.items())))
    return f"tw_rows_{statement.name}_{hashlib.sha256(asked.encode()).hexdigest()[:16]}"


def _write_batches(
    con: duckdb.DuckDBPyConnection,
    statement: Statement,
    values: dict[str, Value],
    batches: Sequence[Ranks],
    name: str,
) -> None:
    """Have `name` give the rows of a statement, computed one batch of ranks after the other."""
    order = statement.fields.get("order", ("rank",))[0]
    in_order = order.split(", ")[0] == "rank"
    table = name if in_order else f"{name}_unsorted"
    columns = ", ".join(f"{column.name} {column.type}" for column in statement.columns)
    con.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({columns})")
    where = elsewhere(con)
    answers = (
        where.ask(statement, values, batches) if where else _here(con, statement, values, batches)
    )
    for rows in answers:
        con.from_arrow(rows).query("rows", f"INSERT INTO {table} FROM rows")
    if not in_order:  # a sorted table would be there beside this one
        con.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {table} ORDER BY {order}")


def _here(
    con: duckdb.DuckDBPyConnection,
    statement: Statement,
    values: dict[str, Value],
    batches: Sequence[Ranks],
) -> Iterator[pa.RecordBatchReader]:
    for ranks in batches:
        with batch(con, ranks) as part:
            yield _answered(part, statement, values, ranks).to_arrow_reader()


def answer_batch(
    con: duckdb.DuckDBPyConnection, statement: Statement, values: dict[str, Value], ranks: Ranks
) -> pa.Table:
    """Return the rows that a statement `within: rank` has of some ranks."""
    with batch(con, ranks) as part:
        return _answered(part, statement, values, ranks).to_arrow_table()


def _answered(
    part: duckdb.DuckDBPyConnection, statement: Statement, values: dict[str, Value], ranks: Ranks
) -> duckdb.DuckDBPyRelation:
    sql, left = prepare(part, statement, values)
    rows = part.sql(sql, params=left) if left else part.sql(sql)
    return rows.filter(ranks)


def _write_through(
    con: duckdb.DuckDBPyConnection,
    statement: Statement,
    values: dict[str, Value],
    made: set[str],
    name: str,
) -> None:
    """Create the table `name` of what Python makes of the rows that a statement selects."""

    def selected() -> pa.Table:
        sql, left = prepare(con, statement, values, made)
        return con.sql(sql, params=left).to_arrow_table()

    found = THROUGH[statement.through](con, values, selected)
    with registered(con, found) as rows:
        select = f"SELECT {statement.typed()} FROM {rows}"
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")


def create_macros(con: duckdb.DuckDBPyConnection, sql: str, made: set[str] | None = None) -> None:
    """Create the shared macros that `sql` calls in `con`, and all that they call, each once.

    What a file of macros calls a table is one: its rows are computed when they are first needed,
    as those of statements are (see `materialize`).
    """
    made = _kept(con) if made is None else made
    there = _created.setdefault(con, set())
    _create_functions(con, sql, there)
    for name in macros_of(sql):
        definition = macros()[name]
        _create_functions(con, definition, there)
        if definition.startswith(_TABLE):
            if name not in made:
                con.execute(parsed(con, definition))
            made.add(name)
        elif name not in there:
            con.execute(parsed(con, definition))
            there.add(name)


def _create_functions(con: duckdb.DuckDBPyConnection, sql: str, there: set[str]) -> None:
    for name, create in _FUNCTIONS.items():
        if name in sql and name not in there:
            # another connection to the instance may have: to ask which are there takes DuckDB
            # longer than many an analysis
            with suppress(duckdb.NotImplementedException, duckdb.CatalogException):
                create(con, name)
            there.add(name)


@cache
def macros_of(sql: str) -> tuple[str, ...]:
    """Return the names of the macros that `sql` needs, each after those that it needs itself."""
    needed: list[str] = []
    for name in _NAME.findall(_COMMENT.sub("", sql)):
        if name in macros() and macros()[name] != sql:
            needed += [*macros_of(macros()[name]), name]
    return tuple(dict.fromkeys(needed))


def _arguments(part: Statement, text: str, values: dict[str, Value]) -> dict[str, Value]:
    """Return the values of the parameters of `part`: those that `p_name := value, ...` sets, and
    of shared rows and rules those that the statement which reads them has itself.
    """
    common = {parameter.name for parameter in part.parameters if parameter.name in values}
    given: dict[str, object] = (
        {} if part.kind == "analysis" else {name: values[name] for name in common}
    )
    for argument in filter(None, (argument.strip() for argument in text.split(","))):
        name, _, value = (side.strip() for side in argument.partition(":="))
        if value.startswith("$"):
            given[name.removeprefix("p_")] = values[value[1:]]
        elif value.upper() == "NULL":
            given[name.removeprefix("p_")] = None
        else:
            given[name.removeprefix("p_")] = value.strip("'")
    return part.bind(given)


def _kept(con: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the temporary tables and views that still hold: none where the database can change.

    A question begins with it. Raises QueryError in a transaction.
    """
    _refuse_transaction(con)
    database, read_only = asked_of(con)
    forget_others(con, database)
    if not read_only:
        return set()
    return {name for (name,) in con.execute(_KEPT).fetchall()}


def _refuse_transaction(con: duckdb.DuckDBPyConnection) -> None:
    """Raise QueryError where the user has begun a transaction: a ROLLBACK takes back what is
    created for a question, and DuckDB's Python package creates no function a second time.
    """
    now, later = (con.execute("SELECT txid_current()").fetchone() for _ in range(2))
    if now == later:  # each statement is a transaction of its own, but in one that was begun
        raise QueryError(
            "analyses are not asked within a transaction; end it first, with COMMIT or ROLLBACK"
        )


@cache
def macros() -> dict[str, str]:
    """Return the definition of every shared macro and table, its header included, by its name."""
    files = resources.files(__package__).joinpath("macros").iterdir()
    texts = [
        answered(file.read_text(encoding="utf-8")) for file in files if file.name.endswith(".sql")
    ]
    holds = resources.files("traceweave").joinpath("replay/holds.sql")
    texts.append(answered(holds.read_text(encoding="utf-8")))
    found = [_HEADER.split(text)[1:] for text in texts]
    return {name: sql for parts in found for name, sql in zip(parts[::2], parts[1::2], strict=True)}
