"""What of a transfer is latency: where a line through the medians by size begins."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints


def latencies(what: Ints, size: Floats, instance: Ints, transfer: Ints) -> Floats:
    """Return the latency in groups as large as that of each instance, ns; of all groups where those
    have one size only.

    `what` and `size` (effective bytes) are of instances, `transfer` is how long those numbered
    `instance` took.
    """
    alpha = np.full(len(size), _latency(size[instance], transfer) or 0.0)
    for one in np.unique(what[instance]).tolist():
        mine = what[instance] == one
        found = _latency(size[instance[mine]], transfer[mine])
        if found is not None:
            alpha[what == one] = found
    return alpha


def _latency(size: Floats, transfer: Ints) -> float | None:
    sizes, number = np.unique(size, return_inverse=True)
    if len(sizes) < 2:
        return None
    order = np.lexsort((transfer, number))
    count = np.bincount(number)
    middle = np.cumsum(count) - count + count // 2
    slope, intercept = np.polyfit(sizes, transfer[order][middle], 1)
    return max(float(intercept), 0.0) if slope > 0 else None
