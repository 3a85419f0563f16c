"""What traceweave.capture writes beside the events: roles of groups, versions and switches."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import traceweave
from tests.marks import nightly
from tests.rewritten import unlisted
from traceweave.capturing.recorders import as_json
from traceweave.sources.captured import parse_captured


def _told(folder: Path, target: Path, told: dict[int, dict[str, Any]]) -> traceweave.Run[pa.Table]:
    """Ingest the real traces of `folder` with what `told` says per rank written into them."""
    shutil.copytree(folder, target)
    for rank, value in told.items():
        path = target / f"rank{rank}.json.gz"
        trace = json.loads(gzip.decompress(path.read_bytes()))
        path.write_bytes(gzip.compress(json.dumps({"traceweave": value, **trace}).encode(), 1))
    traceweave.ingest([target], target / "run.duckdb")
    return traceweave.open(target / "run.duckdb", frames="arrow")


def _group(name: str, ranks: list[int], role: str | None) -> dict[str, Any]:
    return {"name": name, "description": None, "ranks": ranks, "role": role}


def _groups(run: traceweave.Run[pa.Table]) -> dict[tuple[int, ...], tuple[str, str, str | None]]:
    rows = run.sql("SELECT ranks, role, role_source, stated_role FROM groups").to_pylist()
    return {tuple(row.pop("ranks")): tuple(row.values()) for row in rows}


@nightly
def test_a_group_is_for_what_the_job_says(fixtures: Path, tmp_path: Path) -> None:
    told = {n: {"groups": [_group("0", [0, 1], "embedding")]} for n in range(2)}
    with _told(fixtures / "fsdp2_gloo", tmp_path / "own words", told) as run:
        assert _groups(run)[0, 1] == ("world", "size is the world size", "embedding")
    told = {n: {"groups": [_group("0", [0, 1], "data_parallel")]} for n in range(2)}
    with _told(fixtures / "fsdp2_gloo", tmp_path / "a role", told) as run:
        assert _groups(run)[0, 1] == ("world", "size is the world size", "dp")
    told = {0: {"groups": [_group("1", [0, 1], "dp")]}, 1: {"groups": [_group("0", [0], "dp")]}}
    with _told(fixtures / "fsdp2_gloo", tmp_path / "other groups", told) as run:
        assert _groups(run)[0, 1] == ("world", "size is the world size", None)


@nightly
def test_a_group_without_a_label_is_known_by_its_members(fixtures: Path, tmp_path: Path) -> None:
    told = {
        n: {"groups": [_group("3", [0, 1], "ulysses"), _group("0", [0, 1, 2, 3], "dp")]}
        for n in range(4)
    }
    traces = unlisted(fixtures / "slow_rank_2x2_gloo", tmp_path / "unlisted")
    with _told(traces, tmp_path / "traces", told) as run:
        found = _groups(run)
        used = {row["group_id"]: row for row in run.analyze("groups").to_pylist()}
    nothing = "nothing in the traces says what the group is for"
    assert found[0, 1] == ("cp", "the job says so", "cp")
    assert (used[1]["used_for"], used[1]["used_source"]) == ("cp", "the job says so")
    # another pair; calls that may be of several groups
    assert found[2, 3] == ("unknown", nothing, None)
    assert found[0, 1, 2, 3] == ("unknown", nothing, None)


@nightly
def test_ranks_that_contradict_each_other_say_nothing(fixtures: Path, tmp_path: Path) -> None:
    told = {
        n: {"groups": [_group("3", [0, 1], role)]}
        for n, role in enumerate(("pp", "ep", None, None))
    }
    traces = unlisted(fixtures / "slow_rank_2x2_gloo", tmp_path / "unlisted")
    with _told(traces, tmp_path / "traces", told) as run:
        assert _groups(run)[0, 1][0] == "unknown"


def test_a_captured_run_says_what_it_ran_with(fixtures: Path, tmp_path: Path) -> None:
    traceweave.ingest([fixtures / "captured_gloo"], tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb", frames="arrow") as run:
        settings = run.analyze("settings").to_pylist()
        [group] = _groups(run).items()
        [used] = run.analyze("groups").to_pylist()
    assert group == (tuple(range(8)), ("world", "size is the world size", "dp"))
    assert (used["used_for"], used["used_source"]) == ("dp", "the job says so")
    assert {row["values"] for row in settings} == {1}
    assert {row["name"]: row["value"] for row in settings} == {
        "python": "3.11.7", "torch": "2.13.0+cpu", "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }  # fmt: skip


def _sidecar(rank: int, **more: Any) -> bytes:
    """What traceweave.capture writes beside the report of an nsys."""
    probe = {"peer": 0, "times": [[1, 2, 3, 4]]}
    told = {
        "version": "0.1.0", "rank": rank, "world_size": 4, "host": "node0", "pid": 100 + rank,
        "groups": [_group("0", [0, 1, 2, 3], "dp")], "versions": {"torch": "2.13.0"},
        "switches": {"NCCL_ALGO": "Ring"}, "probes": [probe],
    } | more  # fmt: skip
    return as_json({"traceweave": told}).encode()


@nightly
def test_what_nsys_cannot_know_lies_beside_its_report(fixtures: Path, tmp_path: Path) -> None:
    report = fixtures / "ddp_gloo_nsys" / "ddp_4ranks.sqlite"
    shutil.copy(report, tmp_path)
    for rank in range(4):
        (tmp_path / f"rank{rank}_step4-7.capture.json").write_bytes(_sidecar(rank))
    traceweave.ingest([tmp_path], tmp_path / "run.duckdb")
    traceweave.ingest([report], tmp_path / "without.duckdb")
    with (
        traceweave.open(tmp_path / "run.duckdb", frames="arrow") as run,
        traceweave.open(tmp_path / "without.duckdb", frames="arrow") as without,
    ):
        settings = run.analyze("settings").to_pylist()
        sources = run.sql("SELECT format, events_read, events_stored FROM sources").to_pylist()
        probes = run.sql("SELECT count(*) AS n FROM clock_probes").to_pylist()
        events = [
            each.sql("SELECT rank, name, start_ns FROM host_ops ORDER BY ALL")
            for each in (run, without)
        ]
        ranks = [each.sql("SELECT count(*) AS n FROM ranks").to_pylist() for each in (run, without)]
    assert [(row["name"], row["value"], row["ranks"]) for row in settings] == [
        ("torch", "2.13.0", [0, 1, 2, 3]),
        ("NCCL_ALGO", "Ring", [0, 1, 2, 3]),
    ]
    assert sorted(row["format"] for row in sources) == ["capture"] * 4 + ["nsys"]
    assert {row["events_stored"] for row in sources if row["format"] == "capture"} == {3}
    # the probed clock is not that of the report
    assert probes == [{"n": 0}]
    assert ranks == [[{"n": 4}]] * 2
    assert events[0] == events[1]
    assert events[0].num_rows > 0


def test_a_rank_has_a_sidecar_and_a_dump(fixtures: Path, tmp_path: Path) -> None:
    """As `capture(profiler="nsys", flight_recorder=True)` leaves them."""
    for rank in range(2):
        (tmp_path / f"rank{rank}_step4-7.capture.json").write_bytes(_sidecar(rank))
        dump = fixtures / "flight_recorder" / "pairs_gloo" / f"_dump_{rank}"
        shutil.copy(dump, tmp_path / f"rank{rank}_step4-7.flight.pickle")
    result = traceweave.ingest(tmp_path, tmp_path / "run.duckdb")
    assert sorted(source.format for source in result.sources) == (
        ["capture"] * 2 + ["flight_recorder"] * 2
    )


@nightly
def test_a_damaged_sidecar_fails_alone(fixtures: Path, tmp_path: Path) -> None:
    shutil.copy(fixtures / "ddp_gloo_nsys" / "ddp_4ranks.sqlite", tmp_path)
    (tmp_path / "rank0_step4-7.capture.json").write_bytes(_sidecar(0)[:-9])
    (tmp_path / "rank1_step4-7.capture.json").write_bytes(_sidecar(1, groups=3, switches=[]))
    traceweave.ingest([tmp_path], tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb", frames="arrow") as run:
        [failed] = run.sql("SELECT path, message FROM sources WHERE status = 'failed'").to_pylist()
        settings = run.analyze("settings").to_pylist()
    assert failed["path"].endswith("rank0_step4-7.capture.json")
    assert "is damaged" in failed["message"]
    assert [(row["name"], row["ranks"]) for row in settings] == [("torch", [1])]


@pytest.mark.parametrize(
    "value",
    [
        {"groups": 3}, {"groups": [None, {"name": "0"}, _group("0", [-1], "dp")]},
        {"groups": [_group("0", [0, True], "dp"), _group("0", [0], ""), _group("0", [0], None)]},
        {"versions": ["2.11"], "switches": {"NCCL_ALGO": 3}},
    ],
)  # fmt: skip
def test_damaged_metadata_says_nothing(value: object) -> None:
    assert not any(parse_captured(value).values())
