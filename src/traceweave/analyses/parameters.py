"""The parameters of analyses: what their headers say of them, and what a caller may give."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib import resources
from typing import SupportsIndex, TypeAlias

from traceweave.errors import QueryError, suggest
from traceweave.quantities import read_quantity, unit_of
from traceweave.store.schema import parse_column

_MOST = 2**63 - 1

Value: TypeAlias = str | int | float | bool | None
"""What a parameter can hold."""


@dataclass(frozen=True)
class Parameter:
    """One named parameter of an analysis: its SQL type, default, and values if those are listed."""

    name: str
    type: str
    default: Value
    meaning: str
    choices: tuple[tuple[str, str], ...] = ()
    """The allowed values with their meaning; empty if every value of the type is allowed."""

    def check(self, value: object) -> Value:
        """Return `value` as this parameter takes it, read from text where it is text.

        Numbers may have a unit, such as '100us' for one in ns. Raises QueryError if it does not fit
        the type, is below zero, or is not one of the choices.
        """
        if value is None and self.default is None:
            return None
        unit = unit_of(self.name)
        try:
            checked = _convert(self.type, _in_base_units(value, unit) if unit else value)
        except (TypeError, ValueError, OverflowError) as error:
            message = f"parameter {self.name} takes {_KINDS[self.type]}{_LIKE.get(unit, '')}"
            raise QueryError(f"{message}, not {value!r}; default: {self.default}") from error
        if isinstance(checked, int | float) and not checked >= 0:
            raise QueryError(f"parameter {self.name} cannot be {value}; it is zero or more")
        allowed = [choice for choice, _ in self.choices]
        if allowed and checked not in allowed:
            hint = suggest(str(value), allowed)
            message = f"parameter {self.name} cannot be {value!r}{hint}"
            raise QueryError(f"{message}; it is one of: {', '.join(allowed)}")
        return checked


def literal(value: Value) -> str:
    """Return SQL for the value of a parameter."""
    if value is None:
        return "NULL"
    if isinstance(value, float):  # without the type it would be a DECIMAL
        return f"'{value!r}'::DOUBLE"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()


def parse_parameters(params: Iterable[str], choices: Iterable[str]) -> tuple[Parameter, ...]:
    """Read the `param` and `choice` lines of a header.

    A bare name, or `name = default`, is a common parameter. Raises ValueError for a bare name that
    parameters.txt does not have.
    """
    listed = list(choices)
    return tuple(_parse(text, listed) if " | " in text else _common(text) for text in params)


@cache
def common_parameters() -> dict[str, Parameter]:
    """Return the parameters of parameters.txt by name: what several analyses take alike."""
    text = resources.files(__package__).joinpath("parameters.txt").read_text(encoding="utf-8")
    lines = [line.partition(": ") for line in text.splitlines()]
    params = [value for key, _, value in lines if key == "param"]
    choices = [value for key, _, value in lines if key == "choice"]
    return {parameter.name: parameter for parameter in parse_parameters(params, choices)}


def _common(text: str) -> Parameter:
    name, _, default = text.partition(" = ")
    if name not in common_parameters():
        raise ValueError(f"parameters.txt has no {name!r}")
    common = common_parameters()[name]
    return replace(common, default=_parse_default(common.type, default)) if default else common


def _parse(text: str, choices: list[str]) -> Parameter:
    declaration, meaning = text.split(" | ", 1)
    typed, default = declaration.split(" = ", 1)
    name, type_ = typed.split(" ", 1)
    listed = [parse_column(choice) for choice in choices]
    return Parameter(
        name=name,
        type=type_,
        default=_parse_default(type_, default),
        meaning=meaning,
        choices=tuple((value.strip("'"), said) for of, value, said in listed if of == name),
    )


def _parse_default(type_: str, text: str) -> Value:
    return None if text == "NULL" else _convert(type_, text.strip("'"))


_KINDS = {
    "BIGINT": "a whole number",
    "DOUBLE": "a number",
    "VARCHAR": "a text",
    "BOOLEAN": "true or false",
}
_LIKE = {"ns": " of ns, or a time such as 100us", "bytes": ", or a size such as 25MB"}


def _in_base_units(value: object, unit: str) -> object:
    """Return what a text with a unit says as a number in `unit`, anything else as it is."""
    try:
        number, given = read_quantity(value) if isinstance(value, str) else (value, "")
    except ValueError:
        return value
    return str(number) if given == unit else value


def _convert(type_: str, value: object) -> Value:
    if isinstance(value, str):
        return _from_text(type_, value)
    if type_ == "BOOLEAN" and isinstance(value, bool):
        return value
    if type_ in ("BIGINT", "DOUBLE") and not isinstance(value, bool):
        if isinstance(value, float):
            return value if type_ == "DOUBLE" else _whole(Decimal(value))
        if isinstance(value, SupportsIndex):
            return operator.index(value)
    raise TypeError


def _from_text(type_: str, text: str) -> Value:
    if type_ == "VARCHAR":
        return text
    if type_ == "BOOLEAN":
        return ("false", "true").index(text.lower()) == 1
    return float(text) if type_ == "DOUBLE" else _whole(_decimal(text))


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError from error


def _whole(number: Decimal) -> int:
    """Return a number without decimals, 1e5 too, as an integer. Raises ValueError for others."""
    if not number.is_finite() or abs(number) > _MOST or number != number.to_integral_value():
        raise ValueError
    return int(number)
