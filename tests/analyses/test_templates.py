"""What templates may ask for, and what is said of those that cannot be rendered."""

import pytest

from tests.cases import cases
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


@cases
def test_what_is_wrong_is_said_in_one_line(text: str, message: str) -> None:
    with pytest.raises(QueryError) as error:
        rendered(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_name_written_out_stays_a_name() -> None:
    text = template("own.sql", "{{ param('x') }}").render(lambda _: Sql("p_x"), lambda *_: "")
    assert text == "p_x"
