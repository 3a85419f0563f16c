"""What one rank did is measured on its own clock, whatever drift was fitted to it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.analyses.builders import Builder, rows, told
from tests.analyses.memory_events import memory_event
from tests.conftest import MakeOnce
from tests.marks import first_at_once
from traceweave.analyses import find
from traceweave.store.database import open_database
from traceweave.store.empty import create_tables

MS = 1_000_003
"""About a millisecond, and no round number: a drift would show in every product."""

OFFSET_NS, DRIFT_PPM = 7_001, 50.0


def _common(local_ns: int) -> int:
    return local_ns + OFFSET_NS + round(DRIFT_PPM * 1e-6 * local_ns)


def _run(build: Builder, offset_ns: int, drift_ppm: float) -> None:
    """Three steps of 100 ms with every kind of work; a late launch, a sync, a slow loader."""
    build.rank(0, offset_ns=offset_ns, drift_ppm=drift_ppm)
    build.group(0, [0])
    for step in range(3):
        at = 1_000 * MS + 100 * step * MS + 40 * (step == 2) * MS
        end = at + (100 + 40 * (step == 1)) * MS
        build.step(0, step, (at, end), (at + 3 * MS, end + (3 * MS if step < 2 else -4 * MS)))
        build.host(0, (at, end - MS), f"ProfilerStep#{step}", "annotation", step=step)
        build.host(0, (at, at + 2 * MS), "enumerate(DataLoader)#_", depth=1, step=step)
        outer = build.host(0, (at + 2 * MS, end - 2 * MS), "aten::outer", depth=1, step=step)
        launches = (3, 5, 40, 60, 61)
        work = (
            ("compute", 7, (3, 20)),
            ("communication", 20, (15, 33)),
            ("compute", 7, (41, 59)),
            ("memory", 8, (60, 64)),
            ("compute", 7, (62, 94)),
        )
        for launched, (category, stream, (begin, until)) in zip(launches, work, strict=True):
            call = build.launch(
                0, (at + launched * MS - 11, at + launched * MS - 3), step=step, parent_id=outer
            )
            more: dict[str, Any] = {"step": step}
            if category == "memory":
                more |= {"copy_kind": "DtoH", "bytes": 1 << 20, "name": "Memcpy DtoH (Device)"}
            op = build.gpu(
                0, (at + begin * MS, at + until * MS), category, stream=stream, launch=call, **more
            )
            if category == "communication":
                build.collective(
                    {0: (at + begin * MS, at + until * MS)}, each={0: {"gpu_op_id": op}}, step=step
                )
        build.host(
            0, (at + 25 * MS, at + 39 * MS), "cudaStreamSynchronize", "runtime", 9, step=step
        )
        for number, bytes_ in enumerate((512, 2048, -512)):
            memory_event(build, at + 30 * number * MS, bytes_, (4096, 8192, 4096)[number])


ASKED: tuple[tuple[str, dict[str, object]], ...] = (
    ("breakdown", {}),
    ("breakdown", {"window": "host"}),
    ("gaps", {"per": "stream", "window": "span"}),
    ("kernel_types", {}),
    ("idle_causes", {}),
    ("idle_streams", {}),
    ("slow_steps", {}),
    ("data_loading", {}),
    ("launches", {}),
    ("queue_depth", {"interval_ns": 50 * MS}),
    ("ranges", {}),
    ("syncs", {}),
    ("copies", {"interval_ns": 50 * MS}),
    ("memory", {"per": "step"}),
    ("memory_live", {}),
    ("host_ops", {}),
    ("sequences", {"length": 2, "min_count": 2}),
    ("steps", {}),
    ("kernels", {}),
    ("exposed_comm", {}),
    ("groups", {}),
)


@pytest.fixture(scope="module")
def clocks(once: MakeOnce) -> Iterator[list[duckdb.DuckDBPyConnection]]:
    """The run on a perfect clock and on one that drifts, read-only."""

    def write(path: Path, offset_ns: int, drift_ppm: float) -> None:
        with duckdb.connect(path) as con:
            create_tables(con)
            run = Builder(con)
            _run(run, offset_ns, drift_ppm)
            run.write()

    perfect = once("a perfect clock", ".duckdb", lambda path: write(path, 0, 0.0))
    drifting = once(
        "a clock that drifts", ".duckdb", lambda path: write(path, OFFSET_NS, DRIFT_PPM)
    )
    with open_database(perfect) as one, open_database(drifting) as other:
        yield [one, other]


@first_at_once(3)
@pytest.mark.parametrize(
    ("name", "params"),
    ASKED,
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_a_drift_moves_only_moments(
    clocks: list[duckdb.DuckDBPyConnection], name: str, params: dict[str, object]
) -> None:
    """Every number is that of the rank's own clock to the ns; moments are on the common clock."""
    perfect, drifting = clocks
    own = rows(perfect, name, **params)
    moments = {c.name for c in find(name).columns if "common clock" in c.meaning}
    want = [
        {
            key: _common(value) if key in moments and value is not None else value
            for key, value in row.items()
        }
        for row in own
    ]
    assert own
    assert rows(drifting, name, **params) == want


def test_the_parts_of_a_drifting_rank_by_hand(build: Builder) -> None:
    """A second of 0.4 s compute, 0.1 s copies alone and the rest idle; the drift is 50 us of it."""
    build.rank(0, offset_ns=OFFSET_NS, drift_ppm=DRIFT_PPM)
    second = 1_000_000_000
    build.gpu(0, (0, 300_000_000))
    build.gpu(0, (250_000_000, 400_000_000), "memory", stream=8)
    build.gpu(0, (900_000_000, second))
    columns = "window_start_ns window_ns compute_ns exposed_memory_ns idle_ns"
    assert told(build.con, "breakdown", columns) == [
        (OFFSET_NS, second, 400_000_000, 100_000_000, 500_000_000)
    ]
    columns = "start_ns end_ns duration_ns"
    assert told(build.con, "gaps", columns) == [
        (400_000_000 + OFFSET_NS + 20_000, 900_000_000 + OFFSET_NS + 45_000, 500_000_000)
    ]


def test_moments_follow_the_clock_row_they_lie_in(build: Builder) -> None:
    """A clock with two rows: each moment is aligned by the row that holds there."""
    build.rank(0)
    build.con.execute("UPDATE clocks SET offset_ns = 1000")
    build.con.execute(
        "INSERT INTO clocks"
        " SELECT * REPLACE (50_000 AS from_local_ns, 3000 AS offset_ns) FROM clocks"
    )
    build.gpu(0, (0, 10_000))
    build.gpu(0, (30_000, 60_000))
    build.gpu(0, (80_000, 90_000))
    got = [(gap["start_ns"], gap["end_ns"], gap["duration_ns"]) for gap in rows(build.con, "gaps")]
    assert got == [(11_000, 31_000, 20_000), (63_000, 83_000, 20_000)]
