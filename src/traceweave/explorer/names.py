"""Names of kernels as they fit on an operation that is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from traceweave.vocabulary import readable, without_namespaces

_LONGEST = 120
"""Characters that an operation is ever wide enough for."""


def short_names(names: Sequence[str]) -> list[str]:
    """Return names without what says least where there is no room: namespaces.

    'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)' is
    'vectorized_elementwise_kernel<4, AddFunctor<float> >'.
    """
    known = readable(names)
    return [without_namespaces(known[name])[:_LONGEST] for name in names]
