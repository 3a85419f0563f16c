"""A job whose steps are replays of a CUDA graph is the job that launches every kernel."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import traceweave
from tests.graph_replays import replayed
from tests.marks import at_once, first_at_once
from tests.simulated_runs import SKEWED
from traceweave_simulator import Config, simulate, write_kineto

LONGER = replace(SKEWED, steps=6)
JOBS = {
    "ddp": LONGER,
    "tp": replace(LONGER, parallelism="tp", group_size=2),
    "pp": replace(LONGER, parallelism="pp", group_size=2),
}
CUTS: dict[str, dict[int, tuple[int, ...]]] = {
    "all recorded the same steps": {},
    "other steps, fewer": {1: (0,), 2: (5,), 3: (0, 1)},
    # as many replays on each: by number and turn all calls of rank 1 would be one step off
    "other steps, as many": {0: (5,), 1: (0,), 2: (5,), 3: (5,)},
}

Kernel = tuple[int, int, int]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    def of(job: str) -> Path:
        path = tmp_path_factory.getbasetemp() / f"eager_{job}"
        if not path.exists():
            write_kineto(simulate(JOBS[job]), path)
        return path

    return of


def _calls(run: traceweave.Run) -> dict[Kernel, tuple[int | None, str, str]]:
    """By rank, start and length of a kernel: its instance, how it was matched, its evidence."""
    found = run.con.execute(
        "SELECT k.rank, g.start_local_ns, g.duration_ns, k.collective_id, k.match, k.evidence"
        " FROM collectives AS k JOIN gpu_ops AS g ON g.op_id = k.gpu_op_id"
    ).fetchall()
    return {(rank, start, length): tuple(rest) for rank, start, length, *rest in found}


REPLAYS = at_once(
    product(JOBS, CUTS, (1, 0.5)),  # whole steps, and half of each
    ("tp", "all recorded the same steps", 1),
    ("tp", "other steps, fewer", 0.5),
    ("tp", "other steps, as many", 1),
)


@pytest.mark.parametrize("replay", REPLAYS)
def test_replays_of_a_collective_are_told_apart(
    traces: Callable[[str], Path],
    simulated_database: Callable[[Config], Path],
    tmp_path: Path,
    replay: tuple[str, str, float],
) -> None:
    job, cut, part = replay
    folder = replayed(traces(job), tmp_path / "replayed", CUTS[cut], part)
    assert traceweave.ingest(folder, tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = _calls(run)
        numbered = run.sql("SELECT DISTINCT evidence FROM collectives WHERE seq IS NOT NULL")
    assert set(numbered["evidence"]) == ({"metadata"} if part < 1 else set())
    with traceweave.open(simulated_database(JOBS[job])) as run:
        truth = _calls(run)
    # each instance is one of the job's: no two are joined, none is divided
    pairs = {(one, truth[at][0]) for at, (one, _, _) in found.items() if one is not None}
    assert len(pairs) == len({one for one, _ in pairs}) == len({one for _, one in pairs})
    recorded = Counter(truth[at][0] for at in found)
    whole = [one for at, (one, _, _) in found.items() if recorded[truth[at][0]] > 1]
    assert sum(one is not None for one in whole) >= (0.9 if CUTS[cut] else 1) * len(whole)
    assert {how for _, how, kind in found.values() if kind == "capture"} <= {
        "order", "sequence-aligned", "unmatched",
    }  # fmt: skip


# what was wrong: where one rank of a group replayed a graph, and another did not, nothing matched
def test_replays_of_one_rank_are_the_calls_of_another(
    traces: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = replayed(traces("tp"), tmp_path / "replayed", {})
    shutil.copy(traces("tp") / "rank1.json.gz", folder)
    assert traceweave.ingest(folder, tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.sql("SELECT DISTINCT match, evidence FROM collectives ORDER BY ALL")
    assert found.to_numpy().tolist() == [["order", "capture"], ["order", "metadata"]]


@first_at_once()
@pytest.mark.parametrize("lanes", [True, False], ids=["on one lane", "as they ran"])
def test_time_is_divided_as_without_a_graph(
    traces: Callable[[str], Path],
    simulated_database: Callable[[Config], Path],
    tmp_path: Path,
    lanes: bool,
) -> None:
    folder = replayed(traces("tp"), tmp_path / "replayed", {}, lanes=lanes)
    assert traceweave.ingest(folder, tmp_path / "run.duckdb").ok
    answers = []
    for path in (simulated_database(JOBS["tp"]), tmp_path / "run.duckdb"):
        with traceweave.open(path) as run:
            streams = run.sql(
                "SELECT rank, stream, count(*) FROM gpu_ops GROUP BY ALL ORDER BY ALL"
            )
            answers.append([streams.to_numpy().tolist(), run.analyze("breakdown").to_dict()])
    assert answers[0] == answers[1]


def test_ranges_of_a_graph_are_what_it_was_annotated_with(
    traces: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = replayed(traces("ddp"), tmp_path / "replayed", {2: (5,)})
    assert traceweave.ingest(folder, tmp_path / "run.duckdb").ok
    shutil.rmtree(folder)
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.analyze("ranges", kind="graph")
        of_rank = found.groupby("rank")[["range", "count"]].agg(list)
        total = run.sql(
            "SELECT sum(duration_ns) AS ns FROM gpu_ops WHERE category <> 'communication'"
        )
    assert set(found["range"]) == {"layer.0", "layer.1"}
    assert [set(count) for count in of_rank["count"]] == [{6}, {6}, {5}, {6}]
    assert found["gpu_ops_ns"].sum() == total["ns"].item()
    assert found["host_total_ns"].isna().all()
