"""The capture helper in real jobs of 4 ranks: what it writes, and what it does when ranks fail."""

import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import nightly

# not imported when tests are collected: every process of the tests would
pytestmark = pytest.mark.skipif(
    not find_spec("torch"), reason="torch is not installed: it is what records"
)

ROOT = Path(__file__).parents[2]
EVERY_RANK = range(4)

Told = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that has run."""
    folder = tmp_path_factory.mktemp("job")
    done = subprocess.run(
        [sys.executable, "-m", "tests.capturing.job", folder],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def told(job: Path) -> list[Told]:
    """What every rank says of every scenario; rank 3 is killed in the last."""
    return [json.loads((job / f"rank{rank}.json").read_text()) for rank in EVERY_RANK]


def trace(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def steps(path: Path) -> list[str]:
    names = (str(event.get("name")) for event in trace(path)["traceEvents"])
    return sorted(name for name in names if name.startswith("ProfilerStep"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_every_rank_records_the_same_steps(job: Path) -> None:
    files = [f"rank{rank}_step3-5.json.gz" for rank in EVERY_RANK]
    dumps = [f"rank{rank}_step3-5.flight.pickle" for rank in EVERY_RANK]
    # no drafts, and nothing hidden
    assert names(job / "all_well") == sorted(files + dumps)
    for name in files:
        assert steps(job / "all_well" / name) == [f"ProfilerStep#{n}" for n in (3, 4, 5)]


@nightly
def test_a_trace_says_how_long_steps_take_without_the_profiler(tmp_path: Path) -> None:
    """Steps that sleep 20 ms: 9 before the profiler is made ready, the first of them 300 ms."""
    code = (
        "import time, traceweave\n"
        f"with traceweave.capture({str(tmp_path)!r}, range(10, 12), warmup=1) as capture:\n"
        "    for step in range(12):\n"
        "        time.sleep(0.02 if step else 0.3)\n"
        "        capture.step()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"RANK": "0"})
    [path] = tmp_path.iterdir()
    assert 18e6 < trace(path)["traceweave"]["unprofiled_step_ns"] < 60e6
    assert traceweave.ingest([path], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        [[told]] = run.sql("SELECT value FROM job_settings WHERE kind = 'measured'").to_numpy()
        assert "measured" not in set(run.analyze("settings")["kind"])
    assert int(told) == trace(path)["traceweave"]["unprofiled_step_ns"]


def test_a_trace_says_what_its_process_is(job: Path) -> None:
    top = trace(job / "all_well" / "rank2_step3-5.json.gz")
    said = top["traceweave"]
    assert (said["rank"], said["world_size"], said["host"], said["steps"]) == (
        2,
        4,
        "node1",
        [3, 5],
    )
    assert said["groups"] == [
        {"name": "0", "description": "default_pg", "ranks": [0, 1, 2, 3], "role": "dp"}
    ]
    assert said["versions"]["torch"] == pytest.importorskip("torch").__version__
    assert said["switches"]["GLOO_SOCKET_IFNAME"] == "lo"
    assert said["boot_id"]
    assert said["note"] == ""


def test_every_process_asks_one_other_before_and_after(job: Path) -> None:
    asked: dict[int, int] = {}
    for rank in EVERY_RANK:
        top = trace(job / "all_well" / f"rank{rank}_step3-5.json.gz")
        events = [e["ts"] for e in top["traceEvents"] if e["ph"] == "X"]
        first = top["baseTimeNanoseconds"] + 1000 * min(events)
        phases = top["traceweave"]["probes"]
        if not phases:
            continue
        before, after = phases
        assert len(before["times"]) == len(after["times"]) == 50
        assert before["times"][-1][3] < first < after["times"][0][0]
        for one in before["times"] + after["times"]:
            assert one == sorted(one[i] for i in (0, 1, 2, 3))  # one host: one clock
        asked[rank] = before["peer"]
    # two on each host, one of which asks the other; one leader asks the other
    assert len(asked) == 3
    across = [(r, peer) for r, peer in asked.items() if r // 2 != peer // 2]
    assert len(across) == 1


@pytest.mark.parametrize(("scenario", "step"), [("before", 1), ("inside", 4), ("after", 7)])
def test_a_rank_that_raises_keeps_nobody(told: list[Told], scenario: str, step: int) -> None:
    assert [of[scenario]["raised"] for of in told] == [None, None, "Broken: ", None]
    # nobody waits for the time limit of 2 s, but for one who waits for an answer
    assert max(of[scenario]["s"] for of in told) < 1.9


def test_who_raises_before_the_window_keeps_all_from_recording(job: Path, told: list[Told]) -> None:
    assert names(job / "before") == []
    reason = "nothing is recorded: rank 2: Broken in training at step 1"
    assert [told[rank]["before"]["log"] for rank in (0, 1, 3)] == [
        [f"rank {rank}: {reason}"] for rank in (0, 1, 3)
    ]


def test_who_raises_inside_the_window_keeps_what_was_recorded(job: Path) -> None:
    found = [names(job / scenario) for scenario in ("inside", "after")]
    whole = [f"rank{rank}_step3-5.json.gz" for rank in EVERY_RANK]
    assert found == [[*whole[:2], "rank2_step3-3.json.gz", whole[3]], whole]
    assert steps(job / "inside" / "rank2_step3-3.json.gz") == ["ProfilerStep#3"]


def test_an_error_inside_is_logged_once_and_stays_there(job: Path, told: list[Told]) -> None:
    assert [of["helper_fails"]["log"] for of in told] == [
        [], ["the capture is off: ZeroDivisionError: division by zero"], [], []
    ]  # fmt: skip
    assert all(of["helper_fails"]["raised"] is None for of in told)
    assert names(job / "helper_fails") == [f"rank{rank}_step3-5.json.gz" for rank in (0, 2, 3)]


def test_what_was_recorded_is_written_though_the_others_are_out_of_reach(
    job: Path, told: list[Told]
) -> None:
    assert told[1]["store_fails"]["log"] == ["the capture is off: ConnectionError: gone"]
    assert names(job / "store_fails") == [f"rank{rank}_step3-5.json.gz" for rank in EVERY_RANK]
    assert max(of["store_fails"]["s"] for of in told) < 1.9


def test_no_profiler_is_left_running(told: list[Told]) -> None:
    assert not [name for of in told for name, one in of.items() if one["profiling"]]


def test_a_rank_that_cannot_write_keeps_all_from_recording(job: Path, told: list[Told]) -> None:
    assert names(job / "no_room") == []
    for of in told:
        (line,) = of["no_room"]["log"]
        assert re.search("nothing is recorded: rank 3: .* Not a directory", line)


@pytest.mark.parametrize("scenario", ["absent", "absent_recorded"])
def test_who_does_not_come_is_waited_for_as_long_as_said(told: list[Told], scenario: str) -> None:
    assert scenario not in told[0]
    for of in told[1:]:
        assert 1.9 < of[scenario]["s"] < 3.9  # not once per barrier
        (line,) = of[scenario]["log"]
        assert line.endswith("rank 0 did not come within 2 s")


def test_others_record_without_it_where_that_is_wanted(job: Path) -> None:
    assert not list((job / "absent").iterdir())
    assert names(job / "absent_recorded") == [f"rank{r}_step3-5.json.gz" for r in (1, 2, 3)]
    said = trace(job / "absent_recorded" / "rank3_step3-5.json.gz")["traceweave"]
    assert said["note"] == "rank 0 did not come within 2 s"


def test_a_rank_that_is_killed_is_waited_for_once(job: Path, told: list[Told]) -> None:
    for rank in (0, 1, 2):
        assert 1.9 < told[rank]["killed"]["s"] < 3.9  # not once per barrier
        (line,) = told[rank]["killed"]["log"]
        assert line == f"rank {rank}: not all ranks came to 'end' within 2 s"
    assert names(job / "killed") == [f"rank{rank}_step3-5.json.gz" for rank in (0, 1, 2)]


def calls_of(capture: traceweave.capture, times: int) -> Counter[str]:
    """What is called while steps are counted."""
    seen: Counter[str] = Counter()

    def look(frame: Any, event: str, argument: Any) -> None:
        seen[f"{event} {frame.f_code.co_qualname}"] += 1

    sys.setprofile(look)
    try:
        for _ in range(times):
            capture.step()
    finally:
        sys.setprofile(None)
    return seen


@nightly
def test_outside_the_window_a_step_is_counted_and_timed_before_it(tmp_path: Path) -> None:
    with traceweave.capture(tmp_path, range(2000, 2002), warmup=5) as capture:
        before = calls_of(capture, 1900)
        for _ in range(105):
            capture.step()
        after = calls_of(capture, 100)
    # before it, the time is taken too, and put to the latest ones
    for seen, times, taken in ((before, 1900, 3800), (after, 100, 0)):
        own = {what: n for what, n in seen.items() if "capture." in what}
        counted = {"call capture.step": times, "return capture.step": times}
        timed = {"c_call capture.step": taken, "c_return capture.step": taken}
        assert own == counted | (timed if taken else {})
    assert names(tmp_path) == ["rank0_step2000-2001.json.gz"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"steps": range(5, 5)}, "is not a range of steps from 0 on"),
        ({"steps": range(1, 9, 2)}, "is not a range of steps from 0 on"),
        ({"steps": range(2, 4), "first_step": 3}, "is not a range of steps from 3 on"),
        ({"steps": range(2, 4), "profiler": "perf"}, "no profiler 'perf'"),
    ],
)
def test_wrong_use_is_logged_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any], why: str
) -> None:
    with traceweave.capture(tmp_path, **options) as capture:
        for _ in range(10):
            capture.step()
    (line,) = caplog.messages
    assert why in line
    assert names(tmp_path) == []


def test_a_training_that_goes_on_where_another_stopped_counts_its_own_steps(tmp_path: Path) -> None:
    with traceweave.capture(tmp_path, range(1001, 1003), first_step=1000) as capture:
        for _ in range(5):
            capture.step()
    (path,) = tmp_path.iterdir()
    assert steps(path) == ["ProfilerStep#1001", "ProfilerStep#1002"]


@pytest.mark.parametrize(("told", "whole"), [(7, [5, 6]), (6, [5]), (5, [5])])
def test_a_loop_that_ends_inside_the_window_records_whole_steps(
    tmp_path: Path, told: int, whole: list[int]
) -> None:
    """The step that is under way when it ends never ran; where no other is, it is kept."""
    with traceweave.capture(tmp_path, range(5, 9)) as capture:
        for _ in range(told):
            capture.step()
    (path,) = tmp_path.iterdir()
    assert path.name == f"rank0_step5-{whole[-1]}.json.gz"
    assert steps(path) == [f"ProfilerStep#{n}" for n in whole]
    assert trace(path)["traceweave"]["steps"] == [5, whole[-1]]
    assert trace(path)["traceEvents"]


def test_probes_and_events_are_on_one_clock(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    around = []
    with traceweave.capture(tmp_path, range(1), warmup=0) as capture:
        for _ in range(200):
            begin = time.time_ns()
            torch.empty(1)
            around.append((begin, time.time_ns()))
        capture.step()
    (path,) = tmp_path.iterdir()
    top = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    events = [e for e in top["traceEvents"] if e.get("name") == "aten::empty"]
    starts = sorted(top["baseTimeNanoseconds"] + int(e["ts"] * 1000) for e in events)
    assert len(starts) == 200
    for start, (begin, end) in zip(starts, around, strict=True):
        assert begin - 1_000 <= start <= end + 1_000
    assert min(end - begin for begin, end in around) < 50_000  # so close is that looked at


def test_importing_it_brings_neither_torch_nor_the_analyzer() -> None:
    code = (
        "import sys, traceweave; traceweave.capture('x', steps=range(3, 5));"
        "print([m for m in ('torch', 'duckdb', 'numpy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
