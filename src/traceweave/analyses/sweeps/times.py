"""What the sweeps share: types, and what stands for a time that there is not."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.uint8]
Truths: TypeAlias = npt.NDArray[np.bool_]

NEVER = -(2**63) + 1
FOREVER = 2**63 - 1


def ascending(values: Numbers) -> npt.NDArray[np.intp] | None:
    """Return what sorts `values`, equal ones in the order they come; None if they are sorted."""
    if bool(np.all(values[1:] >= values[:-1])):
        return None
    return np.argsort(values, kind="stable")


def by_start(starts: Numbers, *ties: Numbers) -> npt.NDArray[np.intp] | None:
    """Return what sorts by `starts`, equal ones by the first of `ties`, then the next; None if they
    are sorted."""
    if bool(np.all(starts[1:] > starts[:-1])):
        return None
    order = np.argsort(starts, kind="stable")
    if bool(np.all(np.diff(starts[order]) > 0)):
        return order
    return np.lexsort((*reversed(ties), starts))
