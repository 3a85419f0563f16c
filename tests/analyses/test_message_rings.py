"""Messages that go round a ring, as in ring attention, are not those of a pipeline."""

from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from tests.analyses.builders import Builder, rows
from tests.marks import nightly
from tests.sources.test_batched_messages import BEGINS, RANKS, ingest_ring


@nightly
@pytest.mark.parametrize(
    ("desc", "turns", "role", "staged"),
    [
        ("mesh_cp", True, "cp", False),
        ("undefined", False, "cp", False),
        ("undefined", True, "pp", True),
        ("mesh_pp", False, "pp", True),
    ],
)
def test_a_group_says_so_or_its_messages_do(
    tmp_path: Path, desc: str, turns: bool, role: str, staged: bool
) -> None:
    """Those of a pipeline go both ways, also where its last stage sends to its first."""
    with ingest_ring(tmp_path, turns, desc) as run:
        groups = run.analyze("groups")
        calls = run.analyze("exposed_comm")
        rules = run.analyze("findings").rule.tolist()
    assert groups[groups.name.notna()].role.tolist() == [role]
    assert calls[calls.op != "unknown"].is_staged.unique().tolist() == [staged]
    assert staged or "pipeline_wait" not in rules


@pytest.mark.parametrize("told", [0, 1, 2])
def test_who_sends_to_whom_is_known_from_either_side(build: Builder, told: int) -> None:
    """What was wrong: members whose own traces do not name their peers had none, so that a server
    and its workers were ranks of a ring, and a ring that only some traces tell of was none."""
    build.ranks(6)
    build.group(0, [0, 1, 2])
    build.group(1, [3, 4, 5])
    for step in range(3):
        at = 1000 * step
        ring = [(3, 4), (4, 5), (5, 3)]
        served = [(1, 0), (2, 0)] if told == 2 else []
        for source, target in [*ring, (1, 0), (2, 0), (0, 1), (0, 2)]:
            begin = at + (500 if source == 0 else 100)
            each = {source: {"op": "send"}, target: {"op": "recv"}}
            if (source, target) in [*ring[: 2 * told - 1], *served]:
                each[source]["peer"] = target
            spans = {source: (begin, begin + 50), target: (begin, begin + 50)}
            build.collective(spans, group_id=int(source > 2), step=step, each=each)
    got = {row["group_id"]: row["used_for"] for row in rows(build.con, "groups")}
    assert got == {0: None, 1: "cp"}


@nightly
def test_messages_of_an_mpi_program_are_no_pipeline(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    """Two ranks that send both ways round a ring look like two stages: there is no model."""
    files = [fixtures / f"mpi_nsys/per_rank__2023.4_rank{rank}.sqlite.gz" for rank in (0, 1)]
    with traceweave.open(database_of(*files)) as run:
        calls = run.analyze("exposed_comm")
        assert run.analyze("pipeline").empty
        assert "pipeline_wait" not in run.analyze("findings").rule.tolist()
    assert calls[calls.op == "send"].wait_ns.notna().all()
    assert not calls.is_staged.any()


@nightly
@pytest.mark.parametrize(("desc", "waits"), [("mesh_cp", False), ("mesh_pp", True)])
def test_messages_of_one_recorded_rank(tmp_path: Path, desc: str, waits: bool) -> None:
    """Whose other sides nothing tells: they wait for a pipeline's stages only in a pipeline."""
    with ingest_ring(tmp_path, False, desc, range(1)) as run:
        rules = run.analyze("findings").rule.tolist()
    assert ("pipeline_wait" in rules) == waits


@nightly
def test_a_kernel_that_is_part_of_two_messages_lacks_neither(tmp_path: Path) -> None:
    """What was wrong: of the instances that one op carries, only one was counted as seen."""
    with ingest_ring(tmp_path, turns=False) as run:
        quality = run.analyze("replay_quality")
    assert quality.collectives.tolist() == [2 * len(BEGINS)] * RANKS
    assert quality.incomplete.tolist() == [0] * RANKS
