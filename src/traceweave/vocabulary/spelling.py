"""How a kernel's name is read: one spelling for what compilers and profilers write in many.

A profiler gives the function with its template arguments and the types of its parameters, demangled
or not, its own marks for lambdas and nameless namespaces, `snake_case` or `CamelCase`. What a name
says of the work is in the function and in what it was instantiated with; parameter types,
`lambda` and casts say nothing and only mislead (`lamb` is an optimizer).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LONGEST = 8192
"""Characters of a name that are read: names of kernels have up to some 5,000."""

_PARENTHESES = re.compile(r"\([^()]*\)")
_MARKS = re.compile(  # of lambdas, nameless namespaces and their operators
    r"[{\[]\s*(?:lambda|unnamed|instance)[^{}\[\]]*[}\]]|<unnamed>|'lambda\d*'|\boperator\s*(?:const)?"
)
_REPEATED_SCOPE = re.compile(r"::(?:\s*::)+")
_DANGLING_SCOPE = re.compile(r"(?<![^<,\s])::|::(?![^<>,\s])")
_SUFFIX = re.compile(  # clones, AMD's, cv-qualifiers, what MTIA says of an operator's variant
    r"(?:\s*\[[^\[\]]*\]|\.kd|\sconst|(?:\.\w+)?-dtype_\w+(?:-extraKey_\d+)?)+$"
)
_TYPE = re.compile(r"[\w:<>()\[\],.*& -]*")
_BRACKETS = re.compile(r"->|[<> ]")
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MANGLED = re.compile(
    r"L[a-z](?P<literal>\d+)E|DF\d+[b_]|[ST]\d*_|(?P<length>\d{1,5})(?=[A-Za-z_])|(?P<begin>I)|(?P<end>EEv)"
)


class Spelling(NamedTuple):
    """A kernel's name in lower case with `_` between words, without parameter types and marks."""

    own: str
    """The function alone: 'elementwise_kernel'."""
    path: str
    """With its namespaces: 'at::native::elementwise_kernel'."""
    whole: str
    """With its template arguments too."""


def spell(name: str) -> Spelling:
    """Return how a kernel's name is read."""
    name = name[:_LONGEST]
    text = demangled(name, literals=False) if name.startswith("_Z") else name
    text = _SUFFIX.sub("", text.strip())
    before = None
    while text != before:
        before, text = text, _PARENTHESES.sub("", text)
    text = text.partition("(")[0]  # cut off within the types of its parameters
    text = _DANGLING_SCOPE.sub("", _REPEATED_SCOPE.sub("::", _MARKS.sub("", text)))
    text = _without_return_type(_SUFFIX.sub("", text.strip()))
    text = _WORD_BEGINS.sub("_", text).lower()
    path = text.partition("<")[0]
    return Spelling(path.rpartition("::")[2], path, text)


def _without_return_type(text: str) -> str:
    """Return what follows the last blank outside of template arguments, if a type precedes it."""
    depth = begin = 0
    for found in _BRACKETS.finditer(text):
        if found[0] == " " and depth == 0:
            begin = found.end()
        depth = max(0, depth + {"<": 1, ">": -1}.get(found[0], 0))
    return text[begin:] if _TYPE.fullmatch(text, 0, begin) else text


def demangled(name: str, *, literals: bool = True) -> str:
    """Return the identifiers of a mangled name as `a::b::function<c, d>`, numbers among them.

    Profilers leave names mangled that their demangler does not know, such as those with `_Float16`.
    """
    scope: list[str] = []
    inside: list[str] | None = None
    at = 2
    while found := _MANGLED.search(name, at):
        at = found.end()
        if found["length"]:
            at += int(found["length"])
            (scope if inside is None else inside).append(name[found.end() : at])
            if name[2] != "N" and name[at : at + 1] != "I":
                break
        elif found["literal"]:
            if literals and inside is not None:
                inside.append(found["literal"])
        elif found["begin"] and scope and inside is None:
            inside = []
        elif found["end"]:
            break
    return "::".join(scope) + (f"<{', '.join(inside)}>" if inside else "")
