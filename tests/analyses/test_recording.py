"""The verdict on records: damage of public reports, rebuilt by hand and done to real runs."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import nightly

Events = list[dict[str, Any]]
Damage = Callable[[Events, random.Random], None]


def _ingested(traces: Path, to: Path) -> traceweave.Run:
    assert traceweave.ingest([traces], to / "run.duckdb").ok
    return traceweave.open(to / "run.duckdb")


def _health(run: traceweave.Run) -> dict[str, dict[str, Any]]:
    return {row["answer"]: row for row in run.stream_analysis("health").read_all().to_pylist()}


def _records(run: traceweave.Run) -> list[tuple[Any, ...]]:
    rows = run.stream_analysis("recording").read_all().to_pylist()
    return [(r["rank"], r["verdict"], r["kind"], r["steps"], r["count"], r["total"]) for r in rows]


def test_durations_that_run_past_the_next_op_end_there(corpus: Path, tmp_path: Path) -> None:
    """Two of 72 do: compute was 90.24 %, and a third of communication hidden."""
    with _ingested(corpus / "cases" / "overrun", tmp_path) as run:
        health = _health(run)
        records = _records(run)
        issues = run.issues().set_index("kind")
        kept = run.sql(
            "SELECT args->>'recorded duration_ns' FROM gpu_ops"
            " WHERE args->>'recorded duration_ns' IS NOT NULL ORDER BY op_id"
        ).to_numpy()
    assert health["compute"]["value"] == pytest.approx(85.42, abs=0.005)
    assert health["overlap"]["value"] == 0
    assert health["recording"]["verdict"].startswith(
        "rank 0: 2 of 144 GPU ops in steps 2, 3 run on"
    )
    assert records == [(0, "with care", "overruns", [2, 3], 2, 144)]
    assert issues.loc["overruns", "events"] == 2
    assert "newer profiler" in issues.loc["overruns", "message"]
    assert kept.ravel().tolist() == ["90000000", "200000000"]


def test_steps_whose_launches_have_no_records_are_unknown(corpus: Path, tmp_path: Path) -> None:
    """Six of ten steps: idle time was 60 %, and one step 140 ms longer."""
    with _ingested(corpus / "cases" / "dropped_all", tmp_path) as run:
        health = _health(run)
        records = _records(run)
        steps = run.sql("SELECT DISTINCT step FROM steps ORDER BY step").to_numpy()
        findings = run.findings()
    lost = [2, 3, 4, 5, 6, 7]
    assert records == [(rank, "unknown", "lost records", lost, 66, 66) for rank in (0, 1)]
    assert steps.ravel().tolist() == [0, 1, 8, 9]
    # 85.9 % of all steps before the loss
    assert health["compute"]["value"] == pytest.approx(85.9, rel=0.01)
    assert health["step time"]["value"] == pytest.approx(23.29, rel=0.01)
    assert all(row["value"] < 1 for answer, row in health.items() if answer.startswith("idle"))
    assert not findings["evidence"].str.contains("140 ms|sync").any()


def test_times_that_cannot_be_are_left_out(corpus: Path, tmp_path: Path) -> None:
    """Two kernels at time 0 made a recording of 51 years."""
    with _ingested(corpus / "cases" / "ts0", tmp_path) as run:
        health = _health(run)
        [[span]] = run.sql("SELECT max(end_ns) - min(start_ns) FROM gpu_ops").to_numpy().tolist()
        issues = run.issues().set_index("kind")
    assert span == 139_900_000
    assert health["compute"]["value"] == pytest.approx(78.06, abs=0.01)
    assert issues.loc["no usable timestamp", "events"] == 2


@pytest.mark.parametrize(
    "name", ["cases/overrun_ref", "cases/moe", "kineto/megatron_tp2", "kineto/diff_test"]
)
def test_sound_records_are_fit_to_judge(corpus: Path, tmp_path: Path, name: str) -> None:
    with _ingested(corpus / name, tmp_path) as run:
        assert [row[1] for row in _records(run)] == ["fit to judge"]
        assert "fit to judge" in _health(run)["recording"]["verdict"]


def test_launches_into_a_graph_have_no_records(corpus: Path, tmp_path: Path) -> None:
    """544 of 546 launches of this step are captured, and run nothing."""
    with _ingested(corpus / "kineto" / "graph_capture_mi300x", tmp_path) as run:
        assert [row[1] for row in _records(run)] == ["fit to judge"]


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


def test_a_start_apart_leaves_the_same_step_out_on_every_rank(
    fixtures: Path, tmp_path: Path
) -> None:
    """Rank 1 slept 250 ms before it began to record (tests/fixtures/README.md)."""
    with _ingested(fixtures / "uneven_start_gloo", tmp_path) as run:
        records = _records(run)
        first = run.sql("SELECT rank, min(step) FROM steps GROUP BY rank ORDER BY rank").to_numpy()
    assert records == [(rank, "unknown", "late start", [3], None, None) for rank in (0, 1)]
    assert first.tolist() == [[0, 4], [1, 4]]


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


def test_another_run_is_compared_with_care(corpus: Path, tmp_path: Path) -> None:
    for name in ("overrun", "overrun_ref"):
        (tmp_path / name).mkdir()
    with (
        _ingested(corpus / "cases" / "overrun_ref", tmp_path / "overrun_ref") as base,
        _ingested(corpus / "cases" / "overrun", tmp_path / "overrun") as new,
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


@nightly
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("damage", [_drop_a_burst, _stretch])
@pytest.mark.parametrize("name", ["cases/overrun_ref", "cases/samestream", "kineto/torchrec_4"])
def test_damage_never_changes_an_answer_in_silence(
    corpus: Path, tmp_path: Path, name: str, damage: Damage, seed: int
) -> None:
    """One rank is damaged: shares stay within 1 % of the step, or steps or a rank are unknown."""
    (tmp_path / "whole").mkdir()
    with _ingested(corpus / name, tmp_path / "whole") as run:
        whole = _health(run)
    first = min(path.name for path in (corpus / name).iterdir())
    traces = _damaged(corpus / name, tmp_path, damage, first, seed)
    with _ingested(traces, tmp_path) as run:
        health = _health(run)
        unknown = any(row[1] == "unknown" for row in _records(run))
    alike = [
        health.get(answer, {"value": None})["value"] == pytest.approx(whole[answer]["value"], abs=1)
        for answer in ("compute", "exposed transfer")
        if answer in whole
    ]
    assert all(alike) or unknown
