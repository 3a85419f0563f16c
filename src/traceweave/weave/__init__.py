"""What makes many ranks one run: matching collectives over ranks, and estimating every rank's
clock.

Reads base.collective_calls and base.rank_sources; writes groups, base.matches, clocks and the run's
rows of ingest_issues about collectives. Running it again gives the same tables.
"""

from __future__ import annotations

from traceweave.weave.run import WeaveSummary, align, weave

__all__ = ["WeaveSummary", "align", "weave"]
