"""One call of an operator as it was recorded: shapes, types and values of its arguments."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import orjson

Shape: TypeAlias = list[int]

ELEMENTS = {
    "double": ("fp64", 8),
    "float": ("fp32", 4),
    "c10::Half": ("fp16", 2),
    "c10::BFloat16": ("bf16", 2),
    "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e4m3fnuz": ("fp8", 1),
    "c10::Float8_e5m2": ("fp8", 1),
    "c10::Float8_e5m2fnuz": ("fp8", 1),
    "c10::Float8_e8m0fnu": (None, 1),
    "signed char": ("int8", 1),
    "unsigned char": (None, 1),
    "bool": (None, 1),
    "int": (None, 4),
    "long": (None, 8),
    "long int": (None, 8),
}
"""Types as Kineto spells them: what peaks are listed by (None: no peak), bytes of an element."""


@dataclass(frozen=True)
class Signature:
    """One way of calling an operator: what distinguishes calls that do different work."""

    name: str
    dims: str
    """`Input Dims` of the trace, JSON."""
    types: str
    """`Input type`, JSON."""
    concrete: str | None
    """`Concrete Inputs`, JSON: the values of arguments that are no tensors; None in old traces."""


@dataclass(frozen=True)
class Call:
    """The arguments of one call, three lists of one length."""

    shapes: list[Shape]
    """Of every argument; empty for a number and for what is no tensor."""
    types: list[str]
    values: list[Any]
    """Of every argument that is no tensor; None where the trace has none."""

    def arguments(self) -> list[Any]:
        """What a formula takes: the shape of a tensor, the value of anything else."""
        known = zip(self.shapes, self.types, self.values, strict=True)
        return [shape if type_ in ELEMENTS else value for shape, type_, value in known]

    def size(self, index: int, shape: Shape | None = None) -> int:
        """Bytes of argument `index`, or of something of its type with another shape."""
        type_ = self.types[index]
        if type_ not in ELEMENTS:
            return 0
        return prod(self.shapes[index] if shape is None else shape) * ELEMENTS[type_][1]

    def dtype(self, first: int) -> str | None:
        """Type of the wider of two factors, argument `first` and the next."""
        factors = [ELEMENTS.get(type_, (None, 0)) for type_ in self.types[first : first + 2]]
        return max(factors, key=lambda element: element[1])[0]

    def is_packed(self) -> bool:
        """Whether sequences of several lengths lie one after the other, with an index of ints."""
        return len(self.shapes[0]) != 4 or any(
            type_ == "int" and len(shape) == 1
            for shape, type_ in zip(self.shapes, self.types, strict=True)
        )


def parse_call(signature: Signature) -> Call:
    """Read a signature; raises ValueError or TypeError if it is damaged."""
    shapes, types = orjson.loads(signature.dims), orjson.loads(signature.types)
    concrete = orjson.loads(signature.concrete) if signature.concrete else [""] * len(types)
    return Call(shapes, types, [_literal(text) for text in concrete])


def _literal(text: object) -> Any:
    if not isinstance(text, str) or not text or len(text) > 200:
        return None
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None


def first_dtype(types: str | None) -> str | None:
    """Return the type of the first argument that peaks are listed by; `types` is `Input type`."""
    try:
        names = orjson.loads(types or "[]")
    except orjson.JSONDecodeError:
        return None
    known = (ELEMENTS.get(name, (None, 0))[0] for name in names if isinstance(name, str))
    return next((dtype for dtype in known if dtype), None)
