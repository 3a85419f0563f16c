"""Kernels, memory and bandwidth on runs worked out by hand."""

import duckdb
import pytest

from tests.analyses.builders import Builder
from tests.analyses.memory_events import memory_event
from tests.conftest import Recorded
from tests.report.conftest import MakeRun
from tests.report.handmade import MS
from traceweave.report.sections.bandwidth import (
    bandwidth_in_words,
    bandwidth_section,
    load_bandwidth,
)
from traceweave.report.sections.kernels import kernels_in_words, kernels_section, load_kernels
from traceweave.report.sections.memory import load_memory, memory_in_words, memory_section


def test_kernels_by_time_with_their_share_and_the_slow_rank(shared_run: MakeRun) -> None:
    kernels = load_kernels(shared_run(ranks=4, steps=3))
    # gemm: 3 ranks of 60 ms and one of 70, all-reduce: 3 of 30 ms and one of 20, three steps
    assert [(r["kernel"], r["count"], r["total_ns"] // MS) for r in kernels.names] == [
        ("gemm_kernel", 12, 750),
        ("ncclDevKernel_AllReduce", 12, 330),
    ]
    assert [(r["kernel"], r["rank"], r["p50_ns"] // MS, r["ratio"]) for r in kernels.ranks] == [
        ("gemm_kernel", 0, 60, 1.0),
        ("gemm_kernel", 1, 60, 1.0),
        ("gemm_kernel", 2, 60, 1.0),
        ("gemm_kernel", 3, 70, 70 / 60),
    ]
    assert kernels_in_words(kernels) == (
        "Of the time of all kernels, 69.4% goes into the class gemm; the kernel that takes most is"
        " gemm_kernel with 69.4%. The rank that differs most is 3: gemm_kernel takes 16.7% longer"
        " there than on the median rank."
    )


def test_the_kernel_charts_hold_the_rows(shared_run: MakeRun) -> None:
    section = kernels_section(load_kernels(shared_run(ranks=4, steps=3)), cpu=False)
    classes, top, ranks = (figure.chart for figure in section.figures)
    assert (classes["categories"], classes["shares"]) == (
        ["gemm", "collective"],
        [[round(750 / 1080, 5), round(330 / 1080, 5)]],
    )
    assert top["roles"] == ["compute", "exposed-comm"]
    assert ranks["variants"][0]["values"] == [[1.0, 1.0, 1.0, 1.1667]]
    assert section.tables[0].rows[0][:5] == ("gemm_kernel", "gemm", 12, 750 * MS, 750 / 1080)


def test_kernels_outside_of_steps_are_in_their_time_and_the_page_says_so(make_run: MakeRun) -> None:
    con = make_run(ranks=4, steps=3)
    con.execute("UPDATE base.gpu_ops SET step = NULL WHERE step = 2")
    kernels = load_kernels(con)
    assert sum(row["total_ns"] for row in kernels.classes) == (750 + 330) * MS
    classes = kernels_section(kernels, cpu=False).figures[0]
    assert classes.unit == "total of the recording, over ranks"


def test_a_run_without_kernels_says_why(shared_run: MakeRun) -> None:
    section = kernels_section(load_kernels(shared_run(ranks=2, steps=1, gpu=False)), cpu=True)
    assert (section.figures, section.tables) == ((), ())
    assert section.empty == "No kernels to show: no rank recorded work on a GPU."


@pytest.fixture
def memory_run(empty_run: duckdb.DuckDBPyConnection) -> Builder:
    """Allocated 100, 400 of 1000 reserved, 350, 450 of 500 reserved, 50."""
    build = Builder(empty_run)
    build.rank(0)
    for number, (value, allocated, reserved) in enumerate(
        ((100, 100, 1000), (300, 400, 1000), (-50, 350, 500), (100, 450, 500), (-400, 50, 500))
    ):
        memory_event(build, 400 * number + 1000, value, number, allocated, reserved)
    return build


def test_memory_over_time_and_at_the_peak(memory_run: Builder) -> None:
    memory = load_memory(memory_run.con)
    keys = ("rank", "device", "since_ns", "allocated_bytes", "reserved_bytes")
    assert [tuple(row[key] for key in keys) for row in memory.curves] == [
        (0, "cuda:0", 0, 100, 1000),
        (0, "cuda:0", 400, 400, 1000),
        (0, "cuda:0", 800, 350, 500),
        (0, "cuda:0", 1200, 450, 500),
        (0, "cuda:0", 1600, 50, 500),
    ]
    # block 2 was released before it was allocated here: 100 + 300 + 100 are live of 450
    assert memory_in_words(memory) == (
        "At most 450 B were allocated at once, on rank 0, cuda:0; the allocator held 500 B then,"
        " 10.0% of it not in use."
    )
    curves, operators = memory_section(memory).figures
    assert curves.chart["variants"] == [
        {
            "label": "Rank 0, cuda:0",
            "at": [0, 400, 800, 1200, 1600],
            "values": [[1000, 1000, 500, 500, 500], [100, 400, 350, 450, 50]],
        }
    ]
    assert operators.chart["variants"][0]["values"] == [[500]]


def test_without_memory_events_the_section_says_how_to_record_them(shared_run: MakeRun) -> None:
    section = memory_section(load_memory(shared_run(ranks=2, steps=1)))
    assert (section.figures, section.tables) == ((), ())
    assert section.empty == (
        "The traces hold no memory events. Record them with profile_memory=True of the PyTorch"
        " profiler, or with --cuda-memory-usage=true of nsys."
    )


def test_memory_of_a_real_run_agrees_with_its_events(recorded: Recorded) -> None:
    run = recorded("ddp_gloo_4ranks")
    memory = load_memory(run.con)
    peaks = run.con.execute(
        "SELECT rank, max(total_allocated_bytes) FROM memory_events GROUP BY rank ORDER BY rank"
    ).fetchall()
    drawn = {rank: max(r["allocated_bytes"] for r in memory.curves if r["rank"] == rank)
             for rank in range(4)}  # fmt: skip
    assert drawn == dict(peaks)
    assert sum(row["bytes"] for row in memory.operators) <= memory.highest["peak_allocated_bytes"]
    assert len(memory.curves) <= 4 * 401
    held = sum(row["bytes"] for row in memory.operators if row["host_op"] == "aten::mm")
    share = f"{held / memory.highest['peak_allocated_bytes']:.1%}"
    assert memory_in_words(memory).endswith(f"Most of it, {share}, was allocated in aten::mm.")


def test_bandwidth_is_that_of_the_transfer_and_names_its_group(shared_run: MakeRun) -> None:
    bandwidth = load_bandwidth(shared_run(ranks=4, steps=3), {1: "default_pg"})
    # 64 MB in 20 ms after the last arrival, times 2 * 3 / 4
    assert [(r["op"], r["busbw_p50_gbps"]) for r in bandwidth.sizes] == [
        ("all_reduce", pytest.approx(4.8))
    ]
    assert bandwidth_in_words(bandwidth) == (
        "Most time goes into all_reduce of 64.0 MB in default_pg of 4 ranks: 4.80 GB/s of bus"
        " bandwidth at the median."
    )
    section = bandwidth_section(bandwidth, 4)
    assert section.notes[1:] == ("No line for all_reduce: not computable: there is one size only.",)
    assert section.figures[0].chart == {
        "kind": "points",
        "variants": [
            {
                "label": "all_reduce",
                "series": [
                    {
                        "label": "default_pg of 4 ranks",
                        "line": None,
                        "points": [[64_000_000, pytest.approx(4.8), 3, 20 * MS, True]],
                    }
                ],
            }
        ],
    }


def test_bandwidth_over_ranks_that_are_missing_is_said_to_be_a_lower_bound(
    make_run: MakeRun,
) -> None:
    con = make_run(ranks=4, steps=3)
    con.execute("DELETE FROM base.collective_calls WHERE rank = 3 AND step = 0")
    note = bandwidth_section(load_bandwidth(con, {}), 4).notes[1]
    assert note == (
        "1 of 3 collectives lack a rank of their group: waiting for it counts as transfer, so that"
        " the bandwidth was at least this."
    )
    con.execute("UPDATE groups SET size = 8")
    section = bandwidth_section(load_bandwidth(con, {}), 4)
    assert section.notes[1].startswith("3 of 3 collectives lack a rank")
    assert section.tables[-1].rows[0][-1] == (
        "5 of 8 ranks not seen: transfer is an upper bound, bandwidth a lower bound"
    )


def test_the_line_goes_through_two_sizes(make_run: MakeRun) -> None:
    con = make_run(ranks=4, steps=3)
    # step 2 moves a quarter of the bytes in half the time: 64 MB in 20 ms, 16 MB in 10 ms
    con.execute("UPDATE base.collective_calls SET bytes = 16_000_000 WHERE step = 2")
    con.execute("UPDATE base.collective_calls SET duration_ns = duration_ns - 10_000_000"
                " WHERE step = 2")  # fmt: skip
    series = bandwidth_section(load_bandwidth(con, {}), 4).figures[0].chart["variants"][0]["series"]
    line = series[0]["line"]
    # slope: 10 ms for 48 MB * 1.5, so beta = 7.2 GB/s; alpha = 10 ms - 16 MB * 1.5 / 7.2 GB/s
    assert (round(line["alpha"] / MS, 3), round(line["beta"], 6)) == (6.667, 7.2)
    assert line["factor"] == pytest.approx(1.5)
    assert (line["from"], line["to"]) == (16_000_000, 64_000_000)


def test_one_rank_has_no_bandwidth_and_the_reason_is_told(shared_run: MakeRun) -> None:
    con = shared_run(ranks=1, steps=2, collectives=False)
    assert bandwidth_section(load_bandwidth(con, {}), 1).empty == (
        "No collective was recorded whose bandwidth could be measured."
    )
