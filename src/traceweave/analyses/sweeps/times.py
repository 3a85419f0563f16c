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
    tied = np.flatnonzero(np.diff(starts[order]) == 0)
    if len(tied):
        # most starts are unique: only the others are sorted by more than one column
        places = np.union1d(tied, tied + 1)
        among = order[places]
        keys = (*(column[among] for column in reversed(ties)), starts[among])
        order[places] = among[np.lexsort(keys)]
    return order
