"""The verdict on records: damage of public reports, rebuilt by hand and done to real runs."""

import gzip
import json
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.analyses.builders import only
from tests.marks import first_at_once, nightly
from tests.rewritten import rewritten
from traceweave.words import doubts_said

Events = list[dict[str, Any]]
Damage = Callable[[Events, random.Random], None]
Database = Callable[..., Path]


def _ingested(traces: Path, to: Path) -> traceweave.Run:
    assert traceweave.ingest([traces], to / "run.duckdb").ok
    return traceweave.open(to / "run.duckdb")


def _health(run: traceweave.Run) -> dict[str, dict[str, Any]]:
    return {row["answer"]: row for row in run.stream_analysis("health").read_all().to_pylist()}


def _records(run: traceweave.Run) -> list[tuple[Any, ...]]:
    rows = run.stream_analysis("recording").read_all().to_pylist()
    return [(r["rank"], r["verdict"], r["kind"], r["steps"], r["count"], r["total"]) for r in rows]


@nightly
def test_a_rank_without_a_step_that_counts_is_unknown(corpus: Path, tmp_path: Path) -> None:
    """All device records of rank 1 but those of its first kernel are lost."""

    def lose(events: Events, _: random.Random) -> None:
        first = min(e["ts"] for e in events if e.get("cat") == "kernel")
        events[:] = [e for e in events if e.get("cat") not in _DEVICE or e["ts"] == first]

    traces = _damaged(corpus / "cases" / "overrun_ref", tmp_path, lose, only="rank1.json.gz")
    with _ingested(traces, tmp_path) as run:
        records = [row for row in _records(run) if row[0] == 1]
        ranks = run.sql("SELECT DISTINCT rank FROM device_ops").to_numpy()
        health = _health(run)
    assert [(row[1], row[3]) for row in records] == [("unknown", [])]
    assert ranks.ravel().tolist() == [0]
    assert health["compute"]["value"] == pytest.approx(85.42, abs=0.1)
    assert "rank is unknown" in health["recording"]["verdict"]


# what was wrong: "Step 9 takes 2.45 s", of ranks that waited for one that wrote its trace
@nightly
def test_steps_after_a_rank_has_stopped_are_left_out(fixtures: Path, tmp_path: Path) -> None:
    """As if rank 1 had stopped before its last step, 0.5 s after which the others went on."""

    def stop(trace: dict[str, Any]) -> None:
        events = trace["traceEvents"]
        [last] = [e for e in events if e["name"] == "ProfilerStep#6" and e["ph"] == "X"]
        if trace["distributedInfo"]["rank"] == 1:
            kept = [e for e in events if e["ph"] == "M" or e["ts"] < last["ts"]]
            trace["traceEvents"] = kept
            return
        last["dur"] += 500_000

    traces = rewritten(fixtures / "ddp_gloo_4ranks", tmp_path / "traces", stop)
    with _ingested(traces, tmp_path) as run:
        records = [row[:4] for row in _records(run)]
        longest = run.steps()["length_ns"].max()
    assert records == [(rank, "unknown", "unshared steps", [6]) for rank in (0, 2, 3)]
    assert longest < 300e6


# what was wrong: two thirds of that, as rank 0 was taken to wait in no step that it alone recorded
@nightly
def test_what_a_step_costs_is_a_mean_of_steps_that_both_ranks_recorded(
    fixtures: Path, tmp_path: Path
) -> None:
    """Rank 1 sleeps 40 ms in every step; it recorded steps 3 to 5, rank 0 steps 4 to 6."""

    def shift(trace: dict[str, Any]) -> None:
        events = trace["traceEvents"]
        steps = {e["name"][-1]: e for e in events if e["name"].startswith("ProfilerStep#")}
        is_first = trace["distributedInfo"]["rank"] == 0
        at = steps["4" if is_first else "6"]["ts"]
        trace["traceEvents"] = [
            e for e in events if e["ph"] == "M" or (e["ts"] >= at if is_first else e["ts"] < at)
        ]

    traces = rewritten(fixtures / "closure_gloo", tmp_path / "traces", shift)
    with _ingested(traces, tmp_path) as run, only("straggler"):
        records = [row[:4] for row in _records(run)]
        found = run.findings().set_index("rule")
    assert records == [(0, "unknown", "unshared steps", [6]), (1, "unknown", "unshared steps", [3])]
    assert found["bound_ns"]["straggler"] == pytest.approx(40e6, rel=0.1)


@nightly
def test_a_start_that_is_late_for_what_comes_back_counts(fixtures: Path, tmp_path: Path) -> None:
    """Before the sums of step 6 rank 1 stops once more, for 200 ms: so it works."""

    def stop(events: Events, _: random.Random) -> None:
        steps = {e["name"]: e for e in events if e.get("name", "").startswith("ProfilerStep#")}
        sums = [e for e in events if e.get("name") == "gloo:all_reduce"]
        in_step = [e for e in sums if e["ts"] > steps["ProfilerStep#6"]["ts"]]
        first = min(in_step, key=lambda e: float(e["ts"]))
        waits = steps["ProfilerStep#3"]["dur"] > 200_000
        at = first["ts"] + (first["dur"] / 2 if waits else -1)
        for event in events:
            if event.get("ts", 0) > at:
                event["ts"] += 200_000
            elif event.get("ts", 0) + event.get("dur", 0) > at:
                event["dur"] += 200_000

    traces = _damaged(fixtures / "uneven_start_gloo", tmp_path, stop)
    with _ingested(traces, tmp_path) as run:
        assert [row[1] for row in _records(run)] == ["fit to judge"]
        assert run.sql("SELECT min(step) FROM steps").to_numpy().tolist() == [[3]]


@nightly
def test_ranks_that_record_other_things_are_named(fixtures: Path, tmp_path: Path) -> None:
    def forget(events: Events, _: random.Random) -> None:
        events[:] = [e for e in events if e.get("name") != "[memory]"]

    traces = _damaged(fixtures / "ddp_gloo_4ranks", tmp_path, forget, only="rank2.json.gz")
    with _ingested(traces, tmp_path) as run:
        rows = run.stream_analysis("recording").read_all().to_pylist()
    assert [(r["rank"], r["verdict"], r["kind"]) for r in rows] == [
        (2, "with care", "other settings")
    ]
    assert rows[0]["message"].startswith("it lacks memory events")


@nightly
def test_another_run_is_compared_with_care(corpus: Path, database_of: Database) -> None:
    cases = corpus / "cases"
    with (
        traceweave.open(database_of(cases / "overrun_ref")) as base,
        traceweave.open(database_of(cases / "overrun")) as new,
    ):
        facts = traceweave.compare(base, new).table("comparability").to_pylist()
    [fact] = [fact for fact in facts if fact["fact"] == "recording"]
    assert (fact["verdict"], fact["base"], fact["new"]) == ("with care", "fit to judge", "overruns")


_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def _device_events(events: Events) -> Events:
    return [e for e in events if e.get("cat") in _DEVICE]


def _drop_a_burst(events: Events, chance: random.Random) -> None:
    ops = sorted(_device_events(events), key=lambda e: e["ts"])
    many = chance.randint(3, len(ops) // 3)
    first = chance.randrange(len(ops) - many)
    gone = {id(e) for e in ops[first : first + many]}
    events[:] = [e for e in events if id(e) not in gone]


def _stretch(events: Events, chance: random.Random) -> None:
    ops = sorted(_device_events(events), key=lambda e: e["ts"])
    chance.choice(ops[:-1])["dur"] += chance.choice([5e3, 5e4, 5e5])


def _damaged(traces: Path, to: Path, damage: Damage, only: str = "", seed: int = 0) -> Path:
    folder = to / "traces"
    folder.mkdir()
    for path in sorted(traces.iterdir()):
        document = json.loads(gzip.decompress(path.read_bytes()))
        if not only or path.name == only:
            damage(document["traceEvents"], random.Random(f"{seed} {path.name}"))
        (folder / path.name).write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    return folder


def _shift(events: Events, chance: random.Random) -> None:
    """The clock of one rank is another: that is no damage."""
    by = chance.uniform(1e3, 1e8)
    for event in events:
        if "ts" in event:
            event["ts"] += by


def _start_before_launch(events: Events, chance: random.Random) -> None:
    for event in chance.sample(_device_events(events), 2):
        event["ts"] -= chance.uniform(1e4, 1e6)


def _no_launches(events: Events, chance: random.Random) -> None:
    launches = [e for e in events if e.get("cat") == "cuda_runtime"]
    gone = {id(e) for e in chance.sample(launches, len(launches) // 2)}
    events[:] = [e for e in events if id(e) not in gone]


def _no_metadata(events: Events, chance: random.Random) -> None:
    told = [e for e in _device_events(events) if "Collective name" in e["args"]]
    for kernel in chance.sample(told, 3):
        of = kernel["args"]["External id"]
        for event in events:
            if (
                event.get("args", {}).get("External id") == of
                and "Collective name" in event["args"]
            ):
                kept = ("External id", "device", "context", "stream", "correlation")
                event["args"] = {k: v for k, v in event["args"].items() if k in kept}


def _one_long_op(events: Events, chance: random.Random) -> None:
    computing = (e for e in _device_events(events) if "nccl" not in e["name"])
    last = max(computing, key=lambda e: e["ts"])
    last["dur"] = 1e7


def _waits_first(events: Events, chance: random.Random) -> None:
    at = min(e["ts"] for e in _device_events(events) if "nccl" in e["name"])
    for event in (e for e in events if "ts" in e):
        if event["ts"] > at:
            event["ts"] += 2e5
        elif event["ts"] + event.get("dur", 0) > at:
            event["dur"] += 2e5


@first_at_once()
@pytest.mark.parametrize(
    ("damage", "kind", "says"),
    [
        (_start_before_launch, "impossible times", "GPU ops in step"),
        pytest.param(
            _no_launches, "no launches", "have no record of the call that launched them",
            marks=nightly,
        ),
        (_no_metadata, "no metadata", "3 of 6 NCCL kernels tell neither group nor size"),
        pytest.param(_one_long_op, "one op", "of the time that the GPU is busy", marks=nightly),
    ],
)  # fmt: skip
def test_what_is_damaged_is_named(
    corpus: Path, tmp_path: Path, damage: Damage, kind: str, says: str
) -> None:
    """On the rank that is damaged alone; the sound run is fit to judge."""
    traces = _damaged(corpus / "cases" / "overrun_ref", tmp_path, damage, only="rank1.json.gz")
    with _ingested(traces, tmp_path) as run:
        rows = run.stream_analysis("recording").read_all().to_pylist()
    verdict = "unknown" if kind in ("impossible times", "one op") else "with care"
    assert {(row["rank"], row["verdict"]) for row in rows} == {(1, verdict)}
    assert {row["kind"] for row in rows} == {kind}
    assert any(says in row["message"] for row in rows)


@nightly
def test_a_long_wait_for_a_rank_is_no_doubtful_record(corpus: Path, tmp_path: Path) -> None:
    """What was said: one op takes most of the time that its GPU is busy, record again."""
    traces = _damaged(corpus / "cases" / "overrun_ref", tmp_path, _waits_first, "rank1.json.gz")
    with _ingested(traces, tmp_path) as run:
        [[longest, busy]] = run.con.execute(
            "SELECT max(duration_ns), sum(duration_ns) FROM gpu_ops WHERE rank = 1"
        ).fetchall()
        assert 2 * longest > busy
        assert "one op" not in [row[2] for row in _records(run)]


def _not_of_nccl(events: Events, chance: random.Random) -> None:
    _no_metadata(events, chance)
    for event in _device_events(events):
        if "nccl" in event["name"] and "Collective name" not in event["args"]:
            event["name"] = "void multimem_all_reduce_kernel<c10::BFloat16, 16>"


def test_kernels_of_other_libraries_lack_nothing(corpus: Path, tmp_path: Path) -> None:
    """A run on B200 said of 73 sums by torch's symmetric memory that they were NCCL's and told
    no group, as the one that was NCCL's did."""
    traces = _damaged(corpus / "cases" / "overrun_ref", tmp_path, _not_of_nccl, "rank1.json.gz")
    with _ingested(traces, tmp_path) as run:
        evidence = run.con.execute(
            "SELECT evidence, count(*) FROM base.collective_calls GROUP BY ALL"
        )
        assert dict(evidence.fetchall()) == {"metadata": 9, "name": 3}
        assert [row[1] for row in _records(run)] == ["fit to judge"]


@nightly
def test_an_op_before_its_launch_counts_nowhere(corpus: Path, tmp_path: Path) -> None:
    """Two kernels of an nsys report that its device never gave a start: the run lasted longer."""
    traces = tmp_path / "times0.sqlite"
    traces.write_bytes((corpus / "nsys" / "mordred__pre2021.sqlite").read_bytes())
    with closing(sqlite3.connect(traces)) as report:
        report.execute(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 0 WHERE rowid IN"
            " (SELECT rowid FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start LIMIT 2 OFFSET 5)"
        )
        report.commit()
    for name in ("whole", "damaged"):
        (tmp_path / name).mkdir()
    span = "SELECT min(start_ns) FROM device_ops"
    with _ingested(corpus / "nsys" / "mordred__pre2021.sqlite", tmp_path / "whole") as run:
        [[whole]] = run.sql(span).to_numpy().tolist()
    with _ingested(traces, tmp_path / "damaged") as run:
        [[damaged]] = run.sql(span).to_numpy().tolist()
        records = _records(run)
    assert damaged == whole
    assert ("with care", "impossible times", 2) in {(row[1], row[2], row[4]) for row in records}


def test_steps_before_the_recording_are_told_and_doubt_nothing(
    fixtures: Path, tmp_path: Path
) -> None:
    """They may be shorter because the job grew. What capture measured is written into a real trace
    by hand."""
    for path in sorted((fixtures / "captured_gloo").glob("*.json.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        document["traceweave"]["unprofiled_step_ns"] = 45_000_000
        (tmp_path / path.name).write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    with _ingested(tmp_path, tmp_path) as run:
        health = run.analyze("health", replay_ops=0).set_index("answer")
        assert set(health.loc[["recording"], "verdict"]) == {"fit to judge"}
        assert health.loc["step time", "verdict"].endswith("; before the recording 45.0 ms")


DAMAGES = int(os.environ.get("TRACEWEAVE_DAMAGES", "1"))
"""How often each kind of damage is done at random places to each run."""


@nightly
@pytest.mark.parametrize(
    "damage", [_drop_a_burst, _stretch, _shift, _start_before_launch, _no_launches]
)
@pytest.mark.parametrize("name", ["cases/overrun_ref", "cases/samestream"])
def test_damage_never_changes_an_answer_in_silence(
    corpus: Path, tmp_path: Path, name: str, damage: Damage
) -> None:
    """One rank is damaged: shares stay within 1 % of the step, or steps or a rank are unknown. What
    was cut to the next op's start counts with the pause before that, and says so."""
    (tmp_path / "whole").mkdir()
    with _ingested(corpus / name, tmp_path / "whole") as run:
        whole = _shares(run)
    first = min(path.name for path in (corpus / name).iterdir())
    for seed in range(DAMAGES):
        to = tmp_path / str(seed)
        to.mkdir()
        traces = _damaged(corpus / name, to, damage, first, seed)
        with _ingested(traces, to) as run:
            records = _records(run)
            within = 0.03 if any(row[2] == "overruns" for row in records) else 0.01
            unknown = any(row[1] == "unknown" for row in records)
            assert unknown or _shares(run) == pytest.approx(whole, abs=within), seed


@nightly
@pytest.mark.parametrize("name", ["cases/overrun_ref", "cases/samestream"])
def test_ranks_of_one_file_are_ranks(corpus: Path, tmp_path: Path, name: str) -> None:
    """As a merger writes them: pids set apart, the rest left."""
    for folder in ("whole", "merged"):
        (tmp_path / folder).mkdir()
    with _ingested(corpus / name, tmp_path / "whole") as run:
        whole = _shares(run)
    merged: Events = []
    for rank, path in enumerate(sorted((corpus / name).iterdir())):
        document = json.loads(gzip.decompress(path.read_bytes()))
        for event in document["traceEvents"]:
            event["pid"] = f"[{rank}] {event['pid']}"
        merged += document["traceEvents"]
    both = tmp_path / "merged" / "all.json"
    both.write_text(json.dumps(document | {"traceEvents": merged, "distributedInfo": None}))
    with _ingested(both, tmp_path / "merged") as run:
        assert _shares(run) == pytest.approx(whole, abs=0.01)


def _shares(run: traceweave.Run) -> list[float]:
    """Of the mean step: compute, exposed communication, idle time."""
    [row] = run.sql(
        "SELECT sum(compute_ns) / sum(window_ns), sum(exposed_comm_ns) / sum(window_ns),"
        " sum(idle_ns) / sum(window_ns) FROM breakdown()"
    ).to_numpy()
    return [float(share) for share in row]


# what was wrong: "Rank 1 most: it recorded 3 of 4 steps", of which rank 3 had recorded two
def test_the_rank_that_lacks_most_steps_is_named(fixtures: Path, tmp_path: Path) -> None:
    def lacking(trace: dict[str, Any]) -> None:
        events = trace["traceEvents"]
        steps = sorted({e["name"] for e in events if e["name"].startswith("ProfilerStep#")})
        gone = steps[: {1: 1, 3: 2}.get(trace["distributedInfo"]["rank"], 0)]
        trace["traceEvents"] = [event for event in events if event["name"] not in gone]

    traces = rewritten(fixtures / "captured_gloo", tmp_path / "traces", lacking)
    with _ingested(traces, tmp_path) as run, only("recording"):
        told = set(run.findings()["evidence"])
        rows = run.stream_analysis("recording").read_all().to_pylist()
    fewer = [row for row in rows if row["kind"] == "fewer steps"]
    assert [(row["rank"], row["count"]) for row in fewer] == [(1, 1), (3, 2)]
    said = "it lacks 2 of 4 steps that other ranks recorded"
    assert f"Rank 3 most: {said}" in {text.split(".")[0] for text in told}
    (line,) = doubts_said([{**row, "is_unknown": False} for row in fewer])
    assert line == f"ranks 1 and 3, rank 3 most: {said}"
