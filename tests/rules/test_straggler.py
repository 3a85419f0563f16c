"""What a late rank is told, of jobs worked out by hand."""

from __future__ import annotations

import duckdb

from tests.analyses.builders import Builder, found_by

MS = 1_000_000


# what was wrong: "in step 0", the longest by far, and to look for other load on its cores
def test_what_no_other_rank_does_can_be_left_out(empty_run: duckdb.DuckDBPyConnection) -> None:
    """Rank 1 takes 20 ms for its statistics before a sum that rank 0 waits in, 90 in one of seven
    steps."""
    build = Builder(empty_run)
    build.group(0, [0, 1])
    for rank in range(2):
        build.rank(rank)
    for step, longer in enumerate((90, *[20] * 6)):
        at = step * 200
        asked, each = {0: at + 10, 1: at + 10 + longer}, {}
        stats = ((at + 10) * MS, asked[1] * MS)
        build.host(1, stats, "stats", "annotation", step=step)
        build.host(1, stats, "aten::sum", depth=1, step=step)
        for rank, begin in asked.items():
            build.step(rank, step, (at * MS, (at + 200) * MS))
            build.host(rank, (at * MS, (at + 10) * MS), "aten::mm", step=step)
            call = build.host(rank, (begin * MS, begin * MS + 1), "c10d::allreduce_", step=step)
            each[rank] = {"gpu_op_id": None, "host_op_id": call, "stream": 9}
        end = (asked[1] + 5) * MS
        build.collective({r: (b * MS + 2, end) for r, b in asked.items()}, step=step, each=each)
        for rank in range(2):
            build.host(rank, (end, (at + 200) * MS), "aten::add_", step=step)
    found = found_by(build.con, "straggler")["straggler"]
    assert "aten::sum once, 30.0 ms in every step; most others do not" in found["evidence"]
    assert found["advice"].startswith("Most ranks do not do this: on rank 1 leave it out")
