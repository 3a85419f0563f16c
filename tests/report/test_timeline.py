"""The timeline: which steps and ranks it shows, what it says of them, and how it draws."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.analyses.builders import unchanging
from tests.chromium import Chromium
from tests.marks import nightly
from tests.report.conftest import MakePage, MakeRun
from tests.report.handmade import MS, RUNS, T0
from traceweave.analyses import analysis_relation
from traceweave.report import write_report
from traceweave.report.sections.budget import PARTS, load_budget
from traceweave.report.sections.collectives import load_collectives
from traceweave.report.sections.gaps import load_gaps
from traceweave.report.sections.timeline import Timeline, load_timeline, timeline_section

LOOK = Path(__file__).with_name("look_at_timeline.js")


EXPOSED = "all_reduce, no compute follows"


def _load(con: duckdb.DuckDBPyConnection) -> Timeline:
    with unchanging(con):
        budget = load_budget(con)
        return load_timeline(con, budget, load_collectives(con), load_gaps(con, budget).relation)


def _chart(timeline: Timeline, ranks: int) -> dict[str, Any]:
    return timeline_section(timeline, ranks).figures[0].chart


@nightly
def test_the_median_and_the_longest_step_are_shown(shared_run: MakeRun) -> None:
    timeline = _load(shared_run(ranks=4, steps=3))
    # three steps of 100 ms on the host; the clock of rank 3 is 300 ns ahead
    assert timeline.steps == [
        {
            "role": "median", "step": 1, "length_ns": 100 * MS, "slowest_rank": 0,
            "from_ns": T0 + 100 * MS, "until_ns": T0 + 200 * MS + 300,
        },
        {
            "role": "longest", "step": 0, "length_ns": 100 * MS, "slowest_rank": 0, "from_ns": T0,
            "until_ns": T0 + 100 * MS + 300,
        },
    ]  # fmt: skip
    assert timeline.ranks == [
        {"rank": 0, "why": "slowest in step 0, least compute", "shown": True},
        {"rank": 1, "why": "median compute", "shown": True},
        {"rank": 2, "why": None, "shown": True},
        {"rank": 3, "why": "most waited for, most compute", "shown": True},
    ]


def test_a_rank_is_drawn_with_its_streams_waits_and_gaps(shared_run: MakeRun) -> None:
    chart = _chart(_load(shared_run(ranks=2, steps=1, kernel="mm")), 2)
    kinds, lanes = chart.pop("kinds"), chart["steps"][0].pop("path")
    # one chain without a hole, wherever it goes
    pieces = sorted(
        (start, start + duration, kinds[kind])
        for lane in lanes
        for start, duration, kind in zip(lane["start"], lane["duration"], lane["kind"], strict=True)
    )
    assert pieces
    assert all(one[1] == other[0] for one, other in pairwise(pieces))
    # rank 1's clock is 100 ns ahead: rank 0 waits 100 ns, which is less than clocks can tell
    assert chart == {
        "kind": "timeline",
        "unit": "step",
        "ranks": [
            {"rank": 0, "why": "least compute", "shown": True},
            {"rank": 1, "why": "most compute", "shown": True},
        ],
        "causes": ["exposed: unknown"],
        "names": ["mm", "Memcpy DtoH", "ncclDevKernel_AllReduce", EXPOSED],
        "steps": [
            {
                "label": "Step 0 (median, 84.0 ms)",
                "length": 84 * MS + 100,
                "gaps": [
                    {
                        "rank": rank, "start": [60 * MS + 100 * rank], "duration": [20 * MS],
                        "cause": [0], "what": [3],
                    }
                    for rank in (0, 1)
                ],
                "lanes": [
                    _lane(0, "stream 7", [0, 80 * MS], [60 * MS, 4 * MS], [0, 1], [0, 2]),
                    _lane(0, "stream 20", [50 * MS], [30 * MS], [2], [1], wait=100),
                    _lane(1, "stream 7", [100, 80 * MS + 100], [60 * MS, 4 * MS], [0, 1], [0, 2]),
                    _lane(1, "stream 20", [50 * MS + 100], [30 * MS], [2], [1], wait=0),
                ],
            }
        ],
    }  # fmt: skip


def _lane(
    rank: int,
    label: str,
    start: list[int],
    duration: list[int],
    name: list[int],
    category: list[int],
    wait: int | None = None,
) -> dict[str, Any]:
    call = [0, "all_reduce", 64_000_000, wait, True, None, True]
    return {
        "rank": rank, "label": label, "start": start, "duration": duration, "name": name,
        "category": category, "many": [], "calls": [] if wait is None else [call],
    }  # fmt: skip


@nightly
def test_who_is_waited_for_is_said_where_the_clocks_can_tell(make_run: MakeRun) -> None:
    con = make_run(ranks=4, steps=1)
    assert {tuple(call[4:]) for call in _calls(con)} == {(True, 3, False)}
    # rank 2 comes last too, 100 ns before rank 3
    con.execute(
        "UPDATE base.collective_calls SET start_local_ns = start_local_ns + 10 * ?,"
        " duration_ns = duration_ns - 10 * ? WHERE rank = 2",
        [MS, MS],
    )
    assert {tuple(call[4:]) for call in _calls(con)} == {(True, None, False)}
    # of a member that was not recorded nobody knows when it came: the rest may be waiting for it
    con.execute("DELETE FROM base.collective_calls WHERE rank = 1")
    assert {call[4] for call in _calls(con)} == {False}


@nightly
def test_nobody_is_waited_for_by_who_sends_into_a_buffer_or_found_no_partner(
    make_run: MakeRun,
) -> None:
    con = make_run(ranks=2, steps=1)
    # the send is over after 5 ms, the receive begins after 10
    con.execute("UPDATE base.collective_calls SET op = if(rank = 0, 'send', 'recv')")
    for table in ("base.collective_calls", "base.gpu_ops WHERE category = 'communication'"):
        name, _, chosen = table.partition(" WHERE ")
        con.execute(
            f"UPDATE {name} SET duration_ns = if(rank = 0, 5, 20) * {MS},"
            f" start_local_ns = start_local_ns + rank * 10 * {MS} WHERE {chosen or True}"
        )
    assert [call[3:] for call in _calls(con)] == [[0, True, None, False]] * 2
    con.execute("UPDATE base.matches SET collective_id = NULL")
    assert {tuple(call[3:]) for call in _calls(con)} == {(None,) * 4}


def _calls(con: duckdb.DuckDBPyConnection) -> list[list[Any]]:
    steps = _chart(_load(con), 4)["steps"]
    return [call for lane in steps[0]["lanes"] for call in lane["calls"]]


def test_the_sums_agree_with_the_tables_of_the_run(shared_run: MakeRun) -> None:
    con = shared_run(ranks=4, steps=3)
    keys = ("step", "rank", "ops", *(part.key for part in PARTS), "longest_ns", "cause")
    summary = [tuple(row[key] for key in keys) for row in _load(con).summary]
    assert (
        sorted(summary)
        == con.execute(
            f"""
        SELECT o.step, o.rank, o.ops, {", ".join(part.key for part in PARTS)},
            16 * 1000000, 'launch_bound'
        FROM (SELECT rank, step, count(*) AS ops FROM gpu_ops GROUP BY ALL) AS o
        JOIN {analysis_relation(con, "breakdown")} USING (rank, step)
        WHERE step IN (0, 1) ORDER BY ALL
        """
        ).fetchall()
    )
    # collectives end at 80 ms; ranks 0 to 2 compute until 60 ms, rank 3 until 70. By the clocks of
    # the run, which differ by up to 300 ns, it is there before 60 ms
    transfers = [row["exposed_transfer_ns"] for row in _load(con).summary if row["step"] == 0]
    assert transfers == pytest.approx([20 * MS, 20 * MS, 20 * MS, 10 * MS], abs=300)


@nightly
def test_short_operations_become_blocks_and_none_is_lost(make_run: MakeRun) -> None:
    con = make_run(ranks=1, steps=1, collectives=False)
    # 5,000 ops of 1 us, 2 us apart, and after the first thousand a pause of 5 ms
    con.execute(
        "INSERT INTO base.gpu_ops BY NAME SELECT 0 AS rank, 0 AS source_id,"
        " 10_000 + range AS op_id, 'kernel' AS kind, 'compute' AS category, 'other' AS class,"
        " 'tiny' AS name, 0 AS device, 0 AS context, 9 AS stream, 0 AS step, 1_000 AS duration_ns,"
        " ? + range * 2_000 + CASE WHEN range < 1_000 THEN 0 ELSE 5_000_000 END AS start_local_ns"
        " FROM range(5_000)",
        [T0 + MS],
    )
    timeline = _load(con)
    lane = next(
        lane for lane in _chart(timeline, 1)["steps"][0]["lanes"] if lane["label"] == "stream 9"
    )
    # the 2,000 longest are the gemm, the copy and the first 1,998 of the others
    assert lane["many"] == [[1_998, 3_002]]
    assert (lane["start"][-1], lane["duration"][-1]) == (
        MS + 5 * MS + 1_998 * 2_000,
        3_001 * 2_000 + 1_000,
    )
    assert timeline.summary[0]["ops"] == 5_002
    notes = timeline_section(timeline, 1).notes
    assert "3,002 shorter ones are drawn as blocks" in notes[-1]
    con.execute("UPDATE base.gpu_ops SET duration_ns = 2_000 WHERE op_id >= 13_000")
    lanes = _chart(_load(con), 1)["steps"][0]["lanes"]
    assert next(x for x in lanes if x["label"] == "stream 9")["many"] == [
        [0, 1_000],
        [1, 2_000],
        [2_000, 2],
    ]


@nightly
def test_of_many_ranks_the_telling_ones_are_kept_and_the_page_stays_small(
    shared_run: MakeRun, page_of: MakePage
) -> None:
    options = RUNS["many ranks"]
    timeline = _load(shared_run(**options))
    assert [row["rank"] for row in timeline.ranks if row["shown"]] == [0, 3, 32]
    why = {row["rank"]: row["why"] for row in timeline.ranks}
    assert why[3] == "most waited for, most compute"
    assert len(timeline.ranks) == 8
    assert page_of(**options).stat().st_size < 2_500_000


@nightly
def test_clocks_far_apart_do_not_stretch_the_axis(make_run: MakeRun) -> None:
    con = make_run(ranks=3, steps=2)
    con.execute("UPDATE clocks SET offset_ns = 3_600_000_000_000 WHERE rank = 2")
    timeline = _load(con)
    assert [s["until_ns"] - s["from_ns"] for s in timeline.steps] == [84 * MS + 100, 100 * MS + 100]
    assert set(timeline.ops["rank"].to_pylist()) == {0, 1}


@nightly
def test_a_run_without_steps_is_drawn_whole_and_a_cpu_run_by_threads(shared_run: MakeRun) -> None:
    whole = _chart(_load(shared_run(ranks=2, steps=0)), 2)
    assert [step["label"] for step in whole["steps"]] == ["The whole recording"]
    assert whole["unit"] == "recording"
    cpu = _chart(_load(shared_run(ranks=2, steps=2, gpu=False)), 2)
    assert {lane["label"] for step in cpu["steps"] for lane in step["lanes"]} == {
        "thread 1",
        "thread 20",
    }
    waits = [call[3] for lane in cpu["steps"][0]["lanes"] for call in lane["calls"]]
    assert waits == [100, 0]


@nightly
def test_nothing_recorded_nothing_drawn(empty_run: duckdb.DuckDBPyConnection) -> None:
    section = timeline_section(_load(empty_run), 0)
    assert (section.figures, section.tables) == ((), ())
    assert section.empty == "No operation was recorded that could be drawn."


@nightly
def test_a_long_name_is_cut_and_the_data_is_plain_json(make_run: MakeRun) -> None:
    chart = _chart(_load(make_run(ranks=1, steps=1, kernel="k" * 5_000)), 1)
    assert chart["names"][0] == "k" * 199 + "…"
    assert json.loads(json.dumps(chart, allow_nan=False)) == chart


@nightly
@pytest.mark.browser
def test_the_drawing_zooms_moves_and_tells_names_as_text(
    shared_run: MakeRun, tmp_path: Path, chromium: Chromium
) -> None:
    hostile = "</script><img src=x onerror=alert(1)>{{7*7}}"
    page = tmp_path / "run.html"
    write_report(shared_run(ranks=4, steps=3, kernel=hostile), page)
    with chromium.open(page) as visit:
        seen = visit.ask(LOOK.read_text(encoding="utf-8"))
        assert (visit.console, visit.requested) == ([], [])
    assert seen["drawn"] == [True, True, True, True, False]
    assert (seen["nodes"], seen["images"], seen["left"]) == (2, 0, None)
    assert _lines(seen["kernel"]) == [
        *(hostile, "Rank", "0, stream 7", "Begins at", "0 ns", "Lasts", "60.0 ms")
    ]
    assert _lines(seen["gap"]) == [
        *("Idle: launch_bound", "Rank", "0", "Begins at", "84.0 ms", "Lasts", "16.0 ms")
    ]
    assert _lines(seen["collective"]) == [
        *("ncclDevKernel_AllReduce", "Rank", "0, stream 20", "Begins at", "50.0 ms"),
        *("Lasts", "30.0 ms", "Collective", "all_reduce, 64.0 MB"),
        *("Waits for rank 3", "10.0 ms", "Transfer", "20.0 ms"),
    ]
    assert (seen["scrolled"], seen["zoomed"], seen["changed"]) == (False, True, True)
    assert seen["reset"] == "Shown: 0 ns to 100 ms"
    assert seen["keys"] == [
        "Shown: 20.0 ms to 80.0 ms", "Shown: 29.0 ms to 89.0 ms", "Shown: 0 ns to 100 ms",
        "Shown: 0 ns to 100 ms",
    ]  # fmt: skip
    # what is exposed of the collective: until the last rank came, by 300 ns of its clock, and then;
    # the kernel before it one row below, which is the first, and the collective
    collective = (
        "ncclDevKernel_AllReduce, Rank 0, stream 20, Begins at 50.0 ms, Lasts 30.0 ms, Collective"
        " all_reduce, 64.0 MB, Waits for rank 3 10.0 ms, Transfer 20.0 ms"
    )
    assert seen["walk"] == [
        "Exposed communication: other_ranks, Rank 0, Begins at 60.0 ms, Lasts 300 ns, Operation"
        " all_reduce",
        "Exposed communication: launched_late, Rank 0, Begins at 60.0 ms, Lasts 20.0 ms, Operation"
        " all_reduce, the compute that follows",
        *[f"{hostile}, Rank 0, stream 7, Begins at 0 ns, Lasts 60.0 ms"] * 2,
        collective,
    ]
    assert _lines(seen["walked"])[:3] == ["ncclDevKernel_AllReduce", "Rank", "0, stream 20"]
    assert re.fullmatch(r"Shown: 40\.0 ms to 100 ms", seen["later"])
    assert seen["shrunk"] == 22 + 12 + 2 * 20 + 8
    assert seen["pressed"] == [
        ["Step 1 (median, 100 ms)", "false"],
        ["Step 0 (longest, 100 ms)", "true"],
    ]


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]
