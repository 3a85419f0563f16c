"""Names of kernels as they fit on an operation that is drawn."""

from __future__ import annotations

import re

_LONGEST = 120
"""Characters that an operation is ever wide enough for."""

_SCOPE = re.compile(r"(?:\(anonymous namespace\)|<unnamed>|\b\w+)::")
_RETURNS = re.compile(r"^(?:void|static|inline)\s+")


def short_name(name: str) -> str:
    """Return what tells kernels apart: without return type, namespaces and types of parameters.

    'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)' is
    'vectorized_elementwise_kernel<4, AddFunctor<float> >'.
    """
    text = _SCOPE.sub("", _RETURNS.sub("", name[: 8 * _LONGEST]))
    function, parenthesis, _ = text.partition(">(")
    return (function + ">" if parenthesis else text)[:_LONGEST]
