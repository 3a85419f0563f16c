"""Asking a run one of the questions in the catalog.

The rows of other statements that a statement reads (templates.py) are computed while it is
rendered, once per question and set of values, into a temporary table, which DuckDB spills to disk
if memory is short. Further questions use them again only where the database was opened read-only:
then nothing can change it while it is open (fitting the clocks again opens it for writing, which a
reader's lock forbids).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from importlib import resources
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa

from traceweave.analyses.batches import Ranks, batch, divide, elsewhere
from traceweave.analyses.catalog import called, find, library, render
from traceweave.analyses.in_sql import Prepared, compute_calls
from traceweave.analyses.inputs import INPUTS, THROUGH
from traceweave.analyses.parameters import Value
from traceweave.analyses.parsed import identifiers, parsed
from traceweave.analyses.question import Question
from traceweave.analyses.sentences import WRITERS, create_writer
from traceweave.analyses.statements import Statement
from traceweave.analyses.stored import pass_over, restore, store
from traceweave.analyses.sweeps import SWEEPS, create_sweep
from traceweave.errors import QueryError
from traceweave.interrupts import go_on
from traceweave.store.database import first_line, unchanging
from traceweave.store.rows import registered
from traceweave.store.schema import no_rows
from traceweave.vocabulary import with_names
from traceweave.words import named

_DEFINITION = re.compile(
    r"^-- (?P<sort>macro|rows|table): (?P<name>\w+)(?P<takes>[^|]*?) \|[^\n]*\n"
    r"(?:CREATE [^\n]*\n)?(?P<body>.*)",
    re.MULTILINE | re.DOTALL,
)
"""One of a file, which ends with a semicolon; replay runs what has a CREATE as it is."""

T = TypeVar("T")

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
        _check_places(con, values)
        question = Question(con)
        is_kept = table_of(analysis, values) in question.stored
        if is_kept or analysis.is_own or divide(con, analysis):
            return con.table(materialize(con, analysis, values, question))
        return con.sql(parsed(con, prepare(con, analysis, values, question)))


def analysis_relation(con: duckdb.DuckDBPyConnection, name: str, **params: object) -> str:
    """Return the name of the temporary table that holds the rows of an analysis, in its order.

    They are computed once, where other analyses that read them find them again. Raises what `run`
    does.
    """
    analysis = find(name)
    values = analysis.bind(params)
    with _refusing(name):
        _check_places(con, values)
        return materialize(con, analysis, values)


def _check_places(con: duckdb.DuckDBPyConnection, values: dict[str, Value]) -> None:
    """Raise QueryError for a rank or a step that the run does not have."""
    for noun, relation in (("rank", "ranks"), ("step", "steps")):
        if (wanted := values.get(noun)) is None:
            continue
        rows = con.execute(f"SELECT DISTINCT {noun} FROM {relation}").fetchall()
        known = [number for (number,) in rows]
        if wanted not in known:
            has = f"it has {named(noun, known)}" if known else "it has none"
            raise QueryError(f"parameter {noun} cannot be {wanted}: no {noun} of this run, {has}")


def keep_answers(
    con: duckdb.DuckDBPyConnection, ask: Callable[[duckdb.DuckDBPyConnection], None]
) -> None:
    """Keep what analyses say that `ask` asks, and what they start from, in the database behind
    `con`, which is written to disk; what it kept before is replaced.

    Raises what `run` does.
    """
    with unchanging(con):
        pass_over(con)
        ask(con)
        store(con)


def shared_rows(con: duckdb.DuckDBPyConnection, name: str) -> duckdb.DuckDBPyRelation:
    """Return rows that several analyses start from (shared/`name`.sql), computed once for all.

    They are no answer by themselves; what is written beside the answers starts from them too.
    Raises QueryError if the database cannot be read.
    """
    part = called("shared", name)
    with _refusing(name):
        return con.table(materialize(con, part, part.bind({})))


def with_analyses(
    con: duckdb.DuckDBPyConnection, sql: str, ask: Callable[[], T], params: Prepared = None
) -> T:
    """Return what `ask` does, which gives the one statement `sql` with `params` to `con`; it may
    call analyses (in_sql.py). Raises QueryError for a wrong parameter, else what `ask` raises.
    """
    compute_calls(con, sql, params, partial(analysis_relation, con))
    return ask()


@contextmanager
def _refusing(name: str, kind: str = "analysis") -> Iterator[None]:
    """Raise QueryError, in one line, for what DuckDB has against an analysis or a rule."""
    try:
        yield
    except duckdb.Error as error:
        reason = first_line(error)
        raise QueryError(f"{kind} {name} cannot be run on this database: {reason}") from error


def prepare(
    con: duckdb.DuckDBPyConnection,
    statement: Statement,
    values: Mapping[str, Value],
    question: Question | None = None,
) -> str:
    """Return the SQL of a statement, reading tables in place of other statements.

    Creates in `con` what it needs: those tables, macros, and inputs made in Python, but for what is
    there for the same question.
    """
    question = question or Question(con)
    try:
        if question.lacks(statement):
            raise _NoRowsError
        sql = _render(con, statement, values, question)
    except _NoRowsError:
        return no_rows(statement.may_give)
    provide(con, sql, question)
    if statement.is_own:  # of functions that are analyses; ours have them by `ref`
        compute_calls(con, sql, None, partial(analysis_relation, con))
    return sql


class _NoRowsError(Exception):
    """A statement has none."""


def _render(
    con: duckdb.DuckDBPyConnection,
    statement: Statement,
    values: Mapping[str, Value],
    question: Question,
) -> str:
    """Return the SQL of a statement; raises _NoRowsError where it needs a part that has no rows.

    What it needs is computed before the rest, which may not have to be.
    """

    def needed(part: Statement, given: dict[str, Value]) -> str:
        if part in statement.needed_parts and rows(part, given) in question.empty:
            raise _NoRowsError
        return ""

    def rows(part: Statement, given: dict[str, Value]) -> str:
        return materialize(con, part, given, question)

    def found(part: Statement, given: dict[str, Value]) -> str | None:
        if question.lacks(part):
            return None
        table = rows(part, given)
        return None if table in question.empty else table

    if statement.needed_parts:
        render(statement, values, needed, lambda part, given: None)
    return render(statement, values, rows, found)


def materialize(
    con: duckdb.DuckDBPyConnection,
    statement: Statement,
    values: dict[str, Value],
    question: Question | None = None,
) -> str:
    """Compute the rows of a statement into a temporary table and return its name.

    What a read-only database has been asked before is not computed again, nor what is there for the
    same question.
    """
    go_on()
    question = question or Question(con)
    name = table_of(statement, values)
    if name not in question.made and not restore(con, statement, name, question.stored):
        if question.lacks(statement):
            _write(con, no_rows(statement.may_give), name, question)
        elif batches := divide(con, statement):
            _write_batches(con, statement, values, batches, name)
        elif statement.through:
            _write_through(con, statement, values, question, name)
        else:
            with _refusing(statement.name, statement.kind) if statement.is_own else nullcontext():
                _write(con, prepare(con, statement, values, question), name, question)
    question.made.add(name)
    return name


def _write(con: duckdb.DuckDBPyConnection, sql: str, name: str, question: Question) -> None:
    """Create the table `name` of the rows of a SELECT."""
    create = f"CREATE OR REPLACE TEMP TABLE {name} AS\n{sql}"
    if con.execute(parsed(con, create)).fetchall() == [(0,)]:
        question.empty.add(name)


def table_of(statement: Statement, values: Mapping[str, Value]) -> str:
    """Return the name of the table with the rows of a statement."""
    asked = repr((statement.kind, sorted(values.items()), library().mark))
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
    return part.sql(prepare(part, statement, values)).filter(ranks)


def _write_through(
    con: duckdb.DuckDBPyConnection,
    statement: Statement,
    values: dict[str, Value],
    question: Question,
    name: str,
) -> None:
    """Create the table `name` of what Python makes of the rows that a statement selects."""

    def selected() -> pa.Table:
        return con.sql(prepare(con, statement, values, question)).to_arrow_table()

    through = THROUGH[statement.through]
    question.hold(con, through.reads)
    found = through.make(con, statement.filled(values), selected)
    with registered(con, found) as rows:
        select = f"SELECT {statement.typed()} FROM {rows}"
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")


def provide(con: duckdb.DuckDBPyConnection, sql: str, question: Question | None = None) -> None:
    """Have what a statement names there in `con`: shared macros with all that they call, functions,
    and tables that are made once per question, as those of statements are.
    """
    question = question or Question(con)
    names = identifiers(sql)
    question.hold(con, names)
    create_named(con, names, question)


def create_named(con: duckdb.DuckDBPyConnection, names: Iterable[str], question: Question) -> None:
    """Create the macros, functions and tables of such names; others are passed over."""
    there = _created.setdefault(con, set())
    for name in sorted(set(names)):
        if name in question.made:
            continue
        if name in INPUTS:
            question.hold(con, INPUTS[name].reads)
            create_named(con, INPUTS[name].reads, question)
            INPUTS[name].make(con)
            question.made.update(one for one in INPUTS if INPUTS[one] == INPUTS[name])
        elif name in _FUNCTIONS and name not in there:
            # another connection to the instance may have: to ask which are there takes DuckDB
            # longer than many an analysis
            with suppress(duckdb.NotImplementedException, duckdb.CatalogException):
                _FUNCTIONS[name](con, name)
            there.add(name)
        elif name in definitions():
            definition = definitions()[name]
            provide(con, definition.body, question)  # a macro stays, the tables behind it do not
            if definition.sort == "table" or name not in there:
                con.execute(parsed(con, definition.create()))
                there.add(name)
        question.made.add(name)


class Definition(NamedTuple):
    """A shared macro, or a table of rows that many ask for and one pass makes."""

    sort: str
    """'macro': of one value; 'rows': of rows; 'table'."""
    name: str
    takes: str
    """Its parameters in parentheses; '' of a table."""
    body: str

    def select(self) -> str:
        """Return a SELECT of its rows, or of its value."""
        return f"SELECT {self.body}" if self.sort == "macro" else self.body

    def create(self, temporary: bool = True) -> str:
        """Return the statement that creates it, or what stays: the macro, the table as a view."""
        if self.sort == "table":
            kind = "OR REPLACE TEMP TABLE" if temporary else "OR REPLACE VIEW"
            return f"CREATE {kind} {self.name} AS\n{self.body}"
        kind = "TEMP MACRO IF NOT EXISTS" if temporary else "OR REPLACE MACRO"
        value = "AS TABLE" if self.sort == "rows" else "AS"
        return f"CREATE {kind} {self.name}{self.takes} {value}\n{self.body}"


@cache
def definitions() -> dict[str, Definition]:
    """Return every shared macro and table by its name."""
    files = [*resources.files(__package__).joinpath("macros").iterdir()]
    files.append(resources.files("traceweave").joinpath("replay/holds.sql"))
    texts = [with_names(f.read_text(encoding="utf-8")) for f in files if f.name.endswith(".sql")]
    found = [_DEFINITION.search(one) for text in texts for one in text.split(";\n")]
    return {one["name"]: Definition(**one.groupdict()) for one in found if one}
