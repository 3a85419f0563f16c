"""Statements are templates of Jinja, in the manner of dbt; who renders one makes what it asks for.

    {{ param('window') }}                           the value of a parameter, as SQL writes it
    {{ ref('gaps', window=param('window')) }}       the rows of an analysis, or shared ones
    {{ rule('poor_overlap') }}, {{ rules() }}       what a rule found; what all of them found
    {{ names('launching', 'name') }}                what a table of the vocabulary calls a name

Jinja is imported by who renders: kept answers need none of it. Templates run in Jinja's sandbox: a
file of somebody else's may do no more than a query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from traceweave.analyses.parameters import Value, literal
from traceweave.errors import QueryError
from traceweave.vocabulary import names

if TYPE_CHECKING:
    import jinja2


class Sql(str):
    """What a template writes out as it is, as the name of a table; other values are written as SQL
    writes them.
    """


class Asked(NamedTuple):
    """One thing that a template asks for."""

    function: str
    """'param', 'ref', 'rule' or 'rules'."""
    name: str
    """'' for 'rules'."""


Rows: TypeAlias = Callable[[Asked, dict[str, Value | Sql]], str]
"""Returns the relation with the rows of what is asked for, given values of its parameters."""

FUNCTIONS = ("param", "ref", "rule", "rules")


@dataclass(frozen=True)
class Template:
    """One statement, compiled once per process."""

    name: str
    asked: tuple[Asked, ...]
    """All that it asks for, whichever of its branches is taken."""
    _compiled: jinja2.Template

    def render(self, param: Callable[[str], Value | Sql], rows: Rows) -> str:
        """Return the SQL. Raises QueryError for a template that cannot be rendered."""

        def ref(name: str = "", **given: Value | Sql) -> Sql:
            return Sql(rows(Asked("ref", name), given))

        def rule(name: str = "") -> Sql:
            return Sql(rows(Asked("rule", name), {}))

        def rules() -> Sql:
            return Sql(rows(Asked("rules", ""), {}))

        from jinja2 import TemplateError

        try:
            asking = {"param": param, "ref": ref, "rule": rule, "rules": rules}
            return self._compiled.render(asking, names=lambda *of: Sql(names(*of)))
        except (TemplateError, TypeError, ValueError) as error:
            raise QueryError(f"{self.name}: {error}") from error


@cache
def template(name: str, text: str) -> Template:
    """Compile the statement called `name`. Raises QueryError for what is no template of this form:
    names of what is read stand as text where they are asked for.
    """
    from jinja2 import Template as Compiled
    from jinja2 import TemplateSyntaxError, nodes

    try:
        tree = _environment().parse(text, name)
        asked = tuple(
            Asked(call.node.name, call.args[0].as_const() if call.args else "")
            for call in tree.find_all(nodes.Call)
            if isinstance(call.node, nodes.Name) and call.node.name in FUNCTIONS
        )
        code = _environment().compile(tree, name, name)
    except TemplateSyntaxError as error:
        raise QueryError(f"{name}: line {error.lineno} of its SQL: {error.message}") from error
    except nodes.Impossible as error:
        raise QueryError(f"{name}: what it reads has to be named as text: ref('gaps')") from error
    compiled = Compiled.from_code(_environment(), code, {})
    return Template(name, tuple(dict.fromkeys(asked)), compiled)


@cache
def _environment() -> jinja2.Environment:
    from jinja2 import DictLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def written(value: Value | Sql) -> str:
        return value if isinstance(value, Sql) else literal(value)

    return ImmutableSandboxedEnvironment(
        finalize=written, undefined=StrictUndefined, loader=DictLoader({})
    )
