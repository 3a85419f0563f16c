"""What templates may ask for, and what is said of those that cannot be rendered."""

import pytest

from traceweave.analyses.parameters import Value
from traceweave.analyses.templates import Asked, Sql, template
from traceweave.errors import QueryError
from traceweave.vocabulary import names

VALUES: dict[str, Value] = {
    "unit": "it's", "least": 5, "share": 0.01, "all": True, "rank": None,
}  # fmt: skip


def rendered(text: str) -> str:
    return template("own.sql", text).render(
        VALUES.__getitem__, lambda asked, given: f"{asked.function}_{asked.name}{given or ''}"
    )


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("SELECT {{ param('unit') }}", "SELECT 'it''s'"),
        ("SELECT {{ param('least') }} + {{ param('rank') }}", "SELECT 5 + NULL"),
        ("SELECT {{ param('share') }}, {{ param('all') }}", "SELECT '0.01'::DOUBLE, true"),
        ("FROM {{ ref('gaps') }} AS g", "FROM ref_gaps AS g"),
        ("FROM {{ ref('gaps', least=param('least')) }}", "FROM ref_gaps{'least': 5}"),
        ("FROM {{ rule('hang') }}, {{ rules() }}", "FROM rule_hang, rules_"),
        (
            "SELECT {{ names('loading_code', 'h.name') }} FROM host_ops AS h",
            f"SELECT {names('loading_code', 'h.name')} FROM host_ops AS h",
        ),
        ("SELECT {% if param('all') %}1{% else %}2{% endif %}", "SELECT 1"),
        ("{% for n in [1, 'b'] %}{{ n }} {% endfor %}", "1 'b' "),
        ("SELECT {'a': 1} -- 100%", "SELECT {'a': 1} -- 100%"),
    ],
)
def test_values_are_written_as_sql_and_relations_by_name(text: str, sql: str) -> None:
    assert rendered(text) == sql


def test_what_is_asked_for_is_known_whichever_branch_is_taken() -> None:
    text = "{% if param('per') == 'a' %}{{ ref('b') }}{% else %}{{ rule('c') }}{% endif %}"
    asked = template("own.sql", text + "{{ ref('b') }}").asked
    assert set(asked) == {Asked("param", "per"), Asked("ref", "b"), Asked("rule", "c")}
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1\nFROM {{ ref('gaps' }}", "own.sql: line 2 of its SQL: unexpected '}'"),
        ("FROM {{ ref(param('x')) }}", "own.sql: what it reads has to be named as text"),
        ("FROM {{ reff('gaps') }}", "own.sql: 'reff' is undefined"),
        ("{{ names('loadings', 'name') }}", "own.sql: no table of names is called 'loadings'"),
        ("{{ names('loading_code') }}", "own.sql: names() missing 1 required positional argument"),
        ("{{ ().__class__.__mro__ }}", "own.sql: access to attribute '__class__'"),
        ("{{ ref.__globals__ }}", "own.sql: access to attribute '__globals__'"),
        ("{% include '/etc/passwd' %}", "own.sql: /etc/passwd"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, message: str) -> None:
    with pytest.raises(QueryError) as error:
        rendered(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_name_written_out_stays_a_name() -> None:
    text = template("own.sql", "{{ param('x') }}").render(lambda _: Sql("p_x"), lambda *_: "")
    assert text == "p_x"
