"""Sweeps along the time axis that SQL can call: running maxima and searches, many at a time.
And what the sums of random draws may be, which SQL cannot count either.

DuckDB computes a running maximum some ten times as slowly as numpy does. So macros collect the
times of a rank (or stream, or thread) into lists, hand these to a function made here, and unnest
what it returns. All times are integer nanoseconds; what belongs together is one list per column,
all of one length.
"""

from __future__ import annotations

from traceweave.analyses.sweeps.functions import SWEEPS, create_sweep

__all__ = ["SWEEPS", "create_sweep"]
