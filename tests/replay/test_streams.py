"""Which stream waits for which, where times are all that tells."""

from __future__ import annotations

import duckdb

from tests.analyses.builders import Builder
from tests.marks import nightly
from traceweave.replay.model import Model

US = 1000


@nightly
def test_what_times_tell_goes_in_no_circle(empty_run: duckdb.DuckDBPyConnection) -> None:
    """Of 253 ms kernels, times may contradict each other by 200 us. Seven copies of 1 us before
    one of another stream cannot wait for that, which waits for the last of them.
    """
    run = Builder(empty_run)
    run.rank(0)
    calls = iter(range(20))

    def launched(begin: int, end: int, category: str, stream: int) -> None:
        at = next(calls) * 2 * US
        call = run.launch(0, (at, at + US))
        run.gpu(0, (begin * US, end * US), category, stream=stream, launch=call)

    launched(100, 560, "compute", 7)
    for copy in range(7):
        launched(573 + 6 * copy, 574 + 6 * copy, "memory", 7)
    run.gpu(0, (668 * US, 707 * US), "memory", stream=0)
    launched(799, 253_969, "compute", 7)
    run.write()
    assert Model(empty_run).measured == (253_969 - 100) * US
