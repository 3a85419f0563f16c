"""Medians of few, and of many at once: of rows, of parts, of neighbours."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints

NEIGHBOURS = 9
"""Differences that a curve takes the median of: it follows a clock, not its noise."""


def median_of(values: Floats) -> float:
    """numpy.median of values of which there are some; of a few hundred that takes five times
    as long."""
    middle = len(values) // 2
    low = middle - 1 + len(values) % 2
    ranked = np.partition(values, (low, middle))
    return float((ranked[low] + ranked[middle]) / 2)


def row_medians(values: Floats) -> Floats:
    """Median of every row, NaN left out, as a column; NaN where that leaves none. By sorting, which
    numpy.nanmedian is slow at."""
    if not values.shape[1]:
        return np.full((len(values), 1), np.nan)
    ranked = np.sort(values, axis=1)
    count = np.isfinite(values).sum(axis=1)
    row = np.arange(len(values))
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, values.shape[1] - 1)
    return np.asarray((ranked[row, low] + ranked[row, high])[:, None] / 2)


def medians(values: Floats | Ints, kind: Ints) -> Floats:
    """Median of the values of each kind, by number."""
    order = np.lexsort((values, kind))
    count = np.bincount(kind)
    first = np.cumsum(count) - count
    low, high = first + np.maximum(count - 1, 0) // 2, first + count // 2
    high = np.minimum(high, len(values) - 1)
    low = np.minimum(low, len(values) - 1)
    return np.asarray((values[order[low]] + values[order[high]]) / 2)


def others_medians(values: Floats, kind: Ints) -> Floats:
    """For each value: the median of the others of its kind, of which there is one at least."""
    order = np.lexsort((values, kind))
    ranked = values[order]
    count = np.bincount(kind)[kind]
    first = (np.cumsum(np.bincount(kind)) - np.bincount(kind))[kind]
    place = np.empty(len(values), np.int64)
    place[order] = np.arange(len(values))
    middle = first + (count - 1) // 2
    # without it, of an even number the one on the other side is left, of an odd one two are
    low = np.where(count % 2 == 0, middle + (place <= middle), middle - (place >= middle))
    high = np.where(count % 2 == 0, low, middle + (place <= middle))
    return np.asarray((ranked[low] + ranked[high]) / 2)


def group_medians(values: Floats | Ints, of: Floats | Ints) -> Floats:
    """Median of the values that are of the same thing, for each value."""
    number = np.unique(of, return_inverse=True)[1]
    return medians(values.astype(np.float64), number)[number]


def running_median(values: Floats, neighbours: int = NEIGHBOURS) -> Floats:
    """Median of every value and its neighbours; at the edges, of those that there are."""
    width = min(neighbours, len(values) - 1 + len(values) % 2)
    windows = np.lib.stride_tricks.sliding_window_view(values, max(width, 1))
    inner = np.median(windows, axis=1)
    lead = (len(values) - len(inner)) // 2
    return np.pad(inner, (lead, len(values) - len(inner) - lead), mode="edge")


def from_neighbours(values: Floats, neighbours: int = NEIGHBOURS) -> Floats:
    """Distance of every value from the median of its neighbours, without itself: among values that
    are far apart, one in as many as there are would be the median, and so at no distance at all.
    """
    width = min(neighbours, len(values))
    place = np.arange(len(values))
    first = np.clip(place - width // 2, 0, len(values) - width)
    windows = values[first[:, None] + np.arange(width)]
    windows[place, place - first] = np.nan
    return np.asarray(values - row_medians(windows).ravel())


def medians_of_parts(values: Floats, count: int) -> Floats:
    """Median of each of `count` parts of values, one as long as the other to within one (as
    numpy.array_split makes them); of a table, of each part of its rows.
    """
    size, longer = divmod(len(values), count)
    edge, shape = longer * (size + 1), values.shape[1:]
    parts = (
        values[:edge].reshape(longer, size + 1, *shape),
        values[edge:].reshape(count - longer, size, *shape),
    )
    return np.concatenate([np.median(part, axis=1) for part in parts if len(part)])
