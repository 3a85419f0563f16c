"""A first look at a long run: the first steps of every rank, read before all the rest."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice

from traceweave.ingestion.packs import bytes_of
from traceweave.sources.discover import Source
from traceweave.sources.formats import MarksSteps
from traceweave.sources.model import Beginning, Step

LONG_BYTES = 512 << 20
"""Of so much JSON for each file that is read at a time all is known in about half a minute, and a
first look is there in a quarter of it (docs/benchmarks.md); where there is less, none is needed."""

_MOST = 3
"""Steps: as few show whether the first is like the others."""

_SHARE = 4
"""One step in so many, so that no more of the recording is read twice."""

_BEHIND = 3
"""Steps that the device may be behind the host."""


def first_steps(sources: Sequence[Source], jobs: int) -> tuple[list[int], list[Source]] | None:
    """Return the first steps that every rank marks, and the traces without what follows them.

    None if that would be known no sooner than all the rest, if the traces do not mark steps, or if
    one holds several ranks. Raises InputError and OSError where a file cannot be read.
    """
    # not what a job keeps beside, nor later recordings of a rank
    traces = [
        s for s in sources if not s.trace.beside and not any(p.recording for p in s.trace.processes)
    ]
    if not traces or bytes_of(dict(enumerate(traces))) < LONG_BYTES * jobs:
        return None
    if not all(len(source.trace.by_rank) == 1 for source in traces):
        return None
    with ThreadPoolExecutor(jobs) as pool:
        marked = list(pool.map(_marked, traces))
    common = sorted(set.intersection(*({step.number for step in steps} for steps in marked)))
    few = common[: len(common) // _SHARE]
    if not few:
        return None
    return few, [_early(s, steps, few[-1]) for s, steps in zip(traces, marked, strict=True)]


def _marked(source: Source) -> list[Step]:
    """Return the first steps that a file marks; none where its format cannot tell."""
    if not isinstance(source.format, MarksSteps):
        return []
    return list(islice(source.format.steps(source.as_read), _MOST * _SHARE))


def _early(source: Source, steps: Sequence[Step], last: int) -> Source:
    """Return a trace without what follows a step."""
    place = next(place for place, step in enumerate(steps) if step.number == last)
    behind = steps[min(place + _BEHIND, len(steps) - 1)]
    beginning = Beginning(steps[place].end_ns, behind.start_ns)
    return replace(source, trace=replace(source.trace, beginning=beginning))
