"""What stands above the verdict, and where its cards lead, by hand and on real traces."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.cases import cases
from tests.marks import at_once, nightly
from tests.report.conftest import MakeReport
from tests.report.handmade import RUNS
from traceweave.analyses.catalog import rules
from traceweave.report.header import Fact, facts, run_name
from traceweave.report.page import Card, Link
from traceweave.report.render import Report, build_report
from traceweave.report.sections.budget import Budget
from traceweave.report.sections.findings import Findings
from traceweave.report.sections.inputs import Inputs
from traceweave.report.sections.timeline import Timeline
from traceweave.report.sections.timeline_places import Place, place_of
from traceweave.store.database import open_database


def _facts(report: Report) -> dict[str, str]:
    return {fact.label: fact.text for fact in report.facts}


def _inputs(*paths: str, **rank: object) -> Inputs:
    row = {"first_local_ns": None, "host": None, "gpu_name": None, "timeline": "gpu"}
    ranks = [{**row, "rank": i, "world_size": 3, **rank} for i in range(2)] if rank else []
    return Inputs(ranks, [], [{"path": path} for path in paths], [])


def _windows(*shares: float, step: int | None = 1) -> Budget:
    rows = [{"rank": i, "step": step, "window_ns": 1_000, "compute_ns": round(1_000 * share)}
            for i, share in enumerate(shares)]  # fmt: skip
    exposed = (f"exposed_{part}_ns" for part in ("comm", "wait", "transfer", "unsplit", "memory"))
    keys = ("comm_ns", "memory_ns", "overlap_ns", "idle_ns", *exposed)
    return Budget([{**dict.fromkeys(keys, 0), **row} for row in rows])


_COSTLY = Findings([{"cost_ns": 100, "step_share": 0.05, "severity": "info"}])


def test_gpu_hours_lost_are_those_without_compute() -> None:
    # two GPUs compute 90% and 60% of the time: (10% + 40%) * 24 h
    told = partial(facts, _inputs("a/b", gpu_name="H100", host="n1"), _windows(0.9, 0.6))
    found = told(_COSTLY)
    assert [fact[:2] for fact in found] == [
        ("Hosts", "n1"),
        ("GPUs", "2 x H100"),
        ("Ranks", "2 of 3"),
        ("Steps", "1 (step 1)"),
        ("Lost per day", "12 GPU-hours"),
    ]
    assert "computes nothing" in found[-1].note
    assert "25.0% of the time recorded, for 2 ranks with a GPU each" in found[-1].note
    # where no finding would save much there is nothing to say of them
    assert told(Findings([{"cost_ns": 99, "step_share": 0.0499, "severity": "info"}])) == found[:-1]
    unknown = facts(_inputs("a/b", gpu_name="H100", world_size=None), _windows(0.9, 0.6), _COSTLY)
    assert dict(fact[:2] for fact in unknown)["Ranks"] == "2"


def test_a_run_without_gpus_says_that_there_is_nothing_to_lose() -> None:
    found = facts(_inputs("a/b", timeline="cpu"), _windows(0.5, 0.5, step=None), _COSTLY)
    assert found[0] == Fact("Hosts", "not named")
    assert found[1].text == "none recorded"
    assert found[-1] == Fact("Steps", "none marked")
    assert facts(_inputs(), Budget([]), _COSTLY) == ()


@cases
def test_a_run_has_the_name_of_the_folder_of_its_traces(paths: tuple[str, ...], name: str) -> None:
    assert run_name(_inputs(*paths)) == name


@nightly
def test_a_real_run_is_named_counted_and_its_straggler_found_on_the_timeline(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    with open_database(database_of(fixtures / "ddp_gloo_straggler")) as con:
        report = build_report(con)
    assert report.title == "ddp_gloo_straggler"
    assert _facts(report)["Recorded"] == "2026-11-20 23:07:51 UTC"
    assert (_facts(report)["Ranks"], _facts(report)["Steps"]) == ("4 of 4", "4 (steps 3-6)")
    card = report.verdict.cards[0]
    assert card.said.title == "Rank 2 waits for data, and 3 ranks wait for it"
    assert card.said.evidence.startswith("Rank 2 keeps 3 ranks waiting")
    evidence, timeline = card.links
    assert evidence == Link(
        "Evidence: Waiting for others, and tails of collectives", "table-stragglers"
    )
    # of the longest step, where rank 3 waits 62 ms for rank 2
    assert '"step":1,"ranks":[2,3]' in timeline.place


@nightly
def test_of_a_device_that_is_not_read_the_page_does_not_say_that_nothing_was_recorded(
    corpus: Path, database_of: Callable[..., Path]
) -> None:
    with open_database(database_of(corpus / "kineto" / "ascend_npu")) as con:
        report = build_report(con)
    # the trace marks step 1 and holds 706 operators and 276 tasks of the device
    assert _facts(report)["Steps"] == "1 (step 1), not measured"
    assert report.verdict.sentences == ()
    notes = next(section.notes for section in report.sections if section.anchor == "input")
    assert len(notes) == 2
    assert notes[0].startswith("Recording: rank 0: 276 tasks of the device")
    assert notes[1].startswith("Incomplete input: 1,392 of 3,670 events")


@pytest.mark.parametrize("name", at_once(RUNS, "eight ranks"))
def test_evidence_is_on_the_page(report_of: MakeReport, name: str) -> None:
    report = report_of(**RUNS[name])
    ids = {name for section in report.sections for name in section.ids}
    assert {link.anchor for link in _links(report.verdict.cards)} <= ids


def _links(cards: tuple[Card, ...]) -> list[Link]:
    return [link for card in cards for link in card.links]


OPS = pa.table(
    {
        "role": ["median", "median", "longest", "longest", "longest", "longest"],
        "rank": pa.array([0, 1, 0, 1, 1, 1], pa.int32()),
        "start_ns": [0, 5, 0, 1, 10, 60],
        "duration_ns": [50, 20, 40, 2, 30, 25],
        "category": ["compute", *["communication"] * 3, "compute", "communication"],
        # the wait of 35 is at the first collective, for ranks that began recording later
        "wait_ns": [None, 4, 35, 1, None, 15],
        "last_rank": pa.array([None, 0, 1, 0, None, 0], pa.int32()),
    }
)
GAPS = pa.table(
    {
        "role": ["median", "longest"], "rank": pa.array([0, 1], pa.int32()), "start_ns": [7, 9],
        "duration_ns": [2, 3], "cause": ["sync", "sync"],
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "ranks", "place"),
    [
        ("straggler", [0], Place(1, [0, 1], 60, 25)),
        ("imbalance", None, Place(1, [1], 60, 25)),
        ("sync_bound", None, Place(1, [1], 9, 3)),
        ("sync_bound", [0], Place(0, [0], 7, 2)),
        ("slow_kernels", [1], Place(1, [1], 10, 30)),
        ("compute_bound", None, Place(0, [0], 0, 50)),
        # 20 - 4 = 16 is the longest transfer; it counts without the wait
        ("communication_bound", None, Place(0, [1], 5, 20)),
        ("unsteady_steps", None, Place(1, [1], 0, 100)),
        ("data_bound", None, None),
        ("exposed_copies", None, None),
        ("weak_clocks", None, None),
    ],
)
def test_a_finding_is_placed_at_the_longest_of_what_it_is_about(
    rule: str, ranks: list[int] | None, place: Place | None
) -> None:
    steps: list[dict[str, Any]] = [
        {"role": "median", "slowest_rank": 0, "from_ns": 0, "until_ns": 60},
        {"role": "longest", "slowest_rank": 1, "from_ns": 500, "until_ns": 600},
    ]
    timeline = Timeline(steps, [{"rank": 0}, {"rank": 1}], OPS, GAPS, GAPS, [], ())
    (shows,) = (found.text("shows") for found in rules() if found.name == rule)
    assert place_of(timeline, {"shows": shows, "ranks": ranks}) == place
    assert place_of(timeline, {"shows": "waits for nothing", "ranks": None}) is None
