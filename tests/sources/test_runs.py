"""Telling runs apart: what one job has once, on tiny files and on real ones with changed times."""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.marks import nightly
from tests.sources.test_discover import look, ranks_of
from tests.tiny import SECOND, write
from traceweave.errors import InputError, UsageError
from traceweave.ingestion import ingest
from traceweave.sources.discover import Discovery, discover
from traceweave.sources.formats import known_formats
from traceweave.sources.model import Process, Trace
from traceweave.sources.ranks import RankRules
from traceweave.store.database import open_database

HOUR = 3600 * SECOND
MEAN_IT = "never woven together; choose one with --run N, or say --one-run if they are one"


def test_two_files_that_claim_a_rank_for_overlapping_times_are_an_error(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", (0, 10), rank=0, pid=1)
    other = write(tmp_path / "other.json", (5, 15), rank=0, pid=1)
    with pytest.raises(InputError) as error:
        look(tmp_path)
    assert str(error.value) == (
        f"{one} and {other} both claim rank 0 for overlapping times; keep one of them, or say who"
        " is who with --rank other.json=N or --rank-from REGEX"
    )


def two_runs(folder: Path) -> None:
    for rank in range(3):
        write(folder / f"a{rank}.json", (0, 2), rank=rank, pid=10 + rank, world_size=4)
    for rank in range(4):
        write(folder / f"b{rank}.json", (265, 267), rank=rank, pid=20 + rank, world_size=4)


def test_two_runs_in_one_folder_are_refused_with_a_way_to_choose(tmp_path: Path) -> None:
    two_runs(tmp_path)
    with pytest.raises(InputError) as error:
        look(tmp_path)
    assert str(error.value) == (
        "2 runs lie here (rank 0 is claimed by two processes), and they are never woven together;"
        " choose one with --run N, or say --one-run if they are one:"
        "\n  run 1: ranks 0-2 of 4, started 2023-11-14 22:13:20 UTC, a0.json, a1.json and 1 more"
        "\n  run 2: ranks 0-3 of 4, started 2023-11-14 22:17:45 UTC, b0.json, b1.json and 2 more"
    )


def test_the_chosen_run_is_read_and_the_other_passed_over(tmp_path: Path) -> None:
    two_runs(tmp_path)
    found = look(tmp_path, run=2)
    assert list(ranks_of(found)) == ["b0.json", "b1.json", "b2.json", "b3.json"]
    assert {item.reason for item in found.passed_over} == {"belongs to run 1, not to run 2"}
    with pytest.raises(UsageError, match="--run 3: no such run; there are:\n  run 1"):
        look(tmp_path, run=3)


def test_different_world_sizes_are_different_runs(tmp_path: Path) -> None:
    for name, rank, size in [("before", 0, 8), ("after", 1, 2)]:
        (tmp_path / name).mkdir()
        write(tmp_path / name / "t.json", (0, 2), rank=rank, pid=rank + 1, world_size=size)
    with pytest.raises(InputError, match=r"2 runs lie here \(world sizes 2 and 8\)") as error:
        look(tmp_path)
    assert re.findall(r"UTC, (.*)", str(error.value)) == ["after/t.json", "before/t.json"]
    assert len(look(tmp_path, one_run=True).sources) == 2


@cases
def test_times_and_processes_tell_runs_apart(
    tmp_path: Path, files: str, reason: str | None
) -> None:
    """Files as NAME:BEGIN:RANK:PID:HOST, each 2 s long."""
    for name, begin, rank, pid, host in (file.split(":") for file in files.split()):
        at = (int(begin), int(begin) + 2)
        write(tmp_path / f"{name}.json", at, rank=int(rank), pid=int(pid), host=host or None)
    if reason is None:
        names = sorted(file.partition(":")[0] + ".json" for file in files.split())
        assert sorted(ranks_of(look(tmp_path))) == names
    else:
        with pytest.raises(InputError, match=reason):
            look(tmp_path)


@cases
def test_what_a_job_has_once_tells_runs_apart(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], reason: str | None
) -> None:
    write(tmp_path / "a.json", (0, 2), rank=0, pid=1, **one)
    write(tmp_path / "b.json", (0, 2), rank=1, pid=2, **other)
    if reason is None:
        assert len(look(tmp_path).sources) == 2
    else:
        with pytest.raises(InputError, match=re.escape(f"2 runs lie here ({reason})")):
            look(tmp_path)
        assert ranks_of(look(tmp_path, run=2)) == {"b.json": [1]}
        assert len(look(tmp_path, one_run=True).sources) == 2


@pytest.mark.parametrize(("format_", "told"), [("kineto", {"2.27"}), ("nsys", set())])
def test_what_is_concluded_of_nccl_tells_no_runs_apart(format_: str, told: set[str]) -> None:
    """nsys names no version: the id of an enumeration in NCCL's payloads does, so far as known."""
    trace = Trace(Path("a"), format_, 1, (Process(0, nccl_version="2.27"),))
    assert trace.stated.get("NCCL version", set()) == told


def test_one_run_does_not_settle_who_a_rank_is_at_one_time(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.json", (0, 2), rank=0, pid=ord(name), gpu_name=name)
    with pytest.raises(InputError, match="both claim rank 0 for overlapping times"):
        look(tmp_path, one_run=True)


# ---------------------------------------------------------------------------- real traces

Change = Callable[[dict[str, Any]], None]


def later(ns: int) -> Change:
    """Return a change of a Kineto file that has all of it happen later."""

    def change(trace: dict[str, Any]) -> None:
        if base := trace.get("baseTimeNanoseconds"):
            trace["baseTimeNanoseconds"] = base + ns
            return
        for event in trace["traceEvents"]:
            event["ts"] += ns // 1000

    return change


def stating(**top: object) -> Change:
    return lambda trace: trace.update(top)


def changed(source: Path, target: Path, change: Change) -> None:
    """Write a Kineto file anew with something changed, its keys in their order."""
    trace = json.loads(gzip.decompress(source.read_bytes()))
    change(trace)
    target.write_bytes(gzip.compress(json.dumps(trace).encode(), 1))


def ranks_and_change(folder: Path, target: Path, change: Change) -> None:
    """Copy the files of a folder, the second half of them changed."""
    files = sorted(folder.iterdir())
    for number, file in enumerate(files):
        if number < len(files) // 2:
            shutil.copy(file, target)
        else:
            changed(file, target / f"changed_{file.name}", change)


def look_for(*paths: Path, **options: Any) -> Discovery:
    return discover(paths, known_formats(), Path("unused"), **options)


def found(folder: Path, **options: Any) -> list[int | None]:
    return [source.trace.processes[0].rank for source in look_for(folder, **options).sources]


def test_real_ranks_hours_apart_are_two_runs(corpus: Path, tmp_path: Path) -> None:
    ranks_and_change(corpus / "kineto" / "torchrec_4", tmp_path, later(5 * HOUR))

    with pytest.raises(InputError) as error:
        found(tmp_path)

    said = str(error.value)
    assert said.startswith(
        "2 runs lie here (recorded 5.0 hours apart, with no process in common), and they are "
        + MEAN_IT
    )
    assert "run 1: ranks 0 and 1 of 4, started 2023-11-02 20:41:00 UTC" in said
    assert "run 2: ranks 2 and 3 of 4, started 2023-11-03 01:41:00 UTC" in said
    assert found(tmp_path, run=2) == [2, 3]
    assert found(tmp_path, one_run=True) == [0, 1, 2, 3]


@nightly
def test_times_that_only_the_events_tell_are_looked_at_before_anything_is_written(
    corpus: Path, tmp_path: Path
) -> None:
    """The base of these times stands after the events."""
    traces, database = tmp_path / "traces", tmp_path / "run.duckdb"
    traces.mkdir()
    ranks_and_change(corpus / "kineto" / "megatron_tp2", traces, later(8 * HOUR))
    assert found(traces) == [0, 1]

    with pytest.raises(InputError, match=rf"recorded 8\.0 hours apart.*{MEAN_IT}"):
        ingest(traces, database)
    assert not database.exists()

    assert ingest(traces, database, run=2).sources[0].ranks == (1,)
    result = ingest(traces, database, one_run=True)
    assert result.notes == (
        "read as one run (--one-run), although times, GPUs, versions or processes differ",
    )
    with open_database(database) as con:
        ranks = con.execute("SELECT rank FROM ranks ORDER BY rank")
        assert ranks.fetchall() == [(0,), (1,)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (stating(cuda_runtime_version=11080), "CUDA versions 12.6 and 11.8"),
        (stating(cuda_driver_version=13000), "CUDA driver versions 12.8 and 13.0"),
        (
            stating(deviceProperties=[{"id": 0, "name": "NVIDIA B200"}]),
            "GPU models H100 80GB HBM3 and B200",
        ),
        (stating(cuda_runtime_version=12060, cupti_version=25), None),
        (lambda trace: trace["distributedInfo"].pop("nccl_version"), None),
        (
            lambda trace: trace["distributedInfo"].update(nccl_version="2.27.5"),
            "NCCL versions 2.28.9 and 2.27.5",
        ),
    ],
)
def test_what_real_files_say_of_gpu_and_versions_tells_runs_apart(
    corpus: Path, tmp_path: Path, change: Change, reason: str | None
) -> None:
    real = corpus / "kineto" / "nanogpt_8xh100"
    shutil.copy(next(real.glob("*rank6*")), tmp_path / "rank6.json.gz")  # the first to begin
    changed(next(real.glob("*rank1*")), tmp_path / "rank1.json.gz", change)
    if reason is None:
        assert found(tmp_path) == [1, 6]
    else:
        with pytest.raises(InputError, match=re.escape(f"2 runs lie here ({reason})")):
            found(tmp_path)
        assert found(tmp_path, one_run=True) == [1, 6]


@nightly
def test_the_driver_may_differ_between_hosts_that_are_named(corpus: Path, tmp_path: Path) -> None:
    real = corpus / "kineto" / "nanogpt_8xh100"
    for rank, driver in enumerate([12080, 13000]):
        change = stating(host_name=f"node{rank}", cuda_driver_version=driver)
        (path,) = real.glob(f"*rank{rank}*")
        changed(path, tmp_path / f"rank{rank}.json.gz", change)
    assert found(tmp_path) == [0, 1]


def test_real_two_runs_in_one_folder_are_told_apart(corpus: Path) -> None:
    folder = corpus / "kineto" / "torchrec_two_runs_in_one_folder"
    with pytest.raises(InputError, match=r"(?s)run 1: ranks 0-3 of 4.*run 2: ranks 0-3 of 4"):
        look_for(folder)
    second = look_for(folder, run=2)
    assert [s.trace.processes[0].pid for s in second.sources] == [26699, 26700, 26701, 26703]


@cases
def test_real_files_of_different_jobs_are_refused(
    corpus: Path, files: list[str], reason: str
) -> None:
    paths = [corpus / "kineto" / name for name in files]
    rules = RankRules({"rank_not_found.json.gz": (0,), "jacobi__2023.4.sqlite": (1,)})
    with pytest.raises(InputError, match=f"2 runs lie here .{reason}"):
        discover(
            paths, known_formats(), Path("unused"), rules=rules if "no_rank" in files else None
        )


def test_a_real_report_that_does_not_say_when_it_began_goes_with_any(corpus: Path) -> None:
    report = corpus / "nsys" / "mordred__pre2021.sqlite"
    rules = RankRules({"rank_not_found.json.gz": (0,), report.name: (1,)})
    both = discover(
        [corpus / "kineto" / "no_rank", report], known_formats(), Path("unused"), rules=rules
    )
    assert [p.rank for source in both.sources for p in source.trace.processes] == [0, 1]


def test_both_flags_are_too_many(tmp_path: Path) -> None:
    write(tmp_path / "a.json", rank=0)
    with pytest.raises(UsageError, match="--run chooses one of several runs, --one-run says"):
        ingest(tmp_path, tmp_path / "run.duckdb", run=1, one_run=True)
