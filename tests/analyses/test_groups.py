from typing import Any

import pytest

from tests.analyses.builders import Builder, rows
from tests.analyses.kernels_of_groups import ACCUMULATE, Issuer, pick
from tests.cases import cases
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly

ROLE = ("group_id", "role", "role_source", "used_for")


def _world(build: Builder, ranks: int = 4, **more: Any) -> Issuer:
    build.ranks(ranks)
    columns = {"role": "world", "role_source": "size is the world size"}
    build.group(0, list(range(ranks)), **(columns | more))
    return Issuer(build)


def test_time_is_counted_once_and_split_by_what_computes_meanwhile(build: Builder) -> None:
    issue = _world(build, 2)
    # rank 0: [0, 100) and [50, 200) are 200 ns, of which compute covers [40, 70) and [150, 200)
    issue.collective("all_gather", {0: (0, 100)}, bytes_=8)
    issue.collective("all_gather", {0: (50, 200)}, stream=21, bytes_=4)
    issue.compute(0, (40, 60))
    issue.compute(0, (55, 70))
    issue.compute(0, (150, 400))
    (row,) = rows(build.con, "groups")
    assert row == {
        "group_id": 0,
        "role": "world",
        "role_source": "size is the world size",
        "used_for": None,
        "used_source": None,
        "name": "0",
        "description": None,
        "size": 2,
        "ranks": [0, 1],
        "groups": 1,
        "ranks_seen": 1,
        "ops": "all_gather",
        "calls": 2,
        "bytes": 12,
        "comm_ns": 200,
        "overlap_ns": 80,
        "exposed_ns": 120,
        "comm_hidden_fraction": 0.4,
        "exposed_share": 0.3,
        "note": "the operations do not show what the group of all ranks is used for;"
        " operations of 1 of 2 ranks seen",
        "link": None,
    }


@first_at_once(2)
@cases
def test_the_mix_of_operations_tells_a_role(
    build: Builder, ops: list[str], role: str, source: str
) -> None:
    issue = _world(build)
    build.group(1, [0, 1])
    for op in ops:
        issue.collective(op, {0: (0, 100), 1: (0, 100)}, group_id=1)
    (row,) = rows(build.con, "groups")
    assert (row["role"], row["role_source"]) == (role, source)
    assert row["used_for"] == (None if role == "unknown" else role)


@first_at_once()
@pytest.mark.parametrize(("name", "role"), [("aten::mm", "tp"), ("MmBackward0", "dp")])
def test_what_is_scattered_without_a_backward_pass_is_no_gradients(
    build: Builder, name: str, role: str
) -> None:
    """Llama under tensor and sequence parallelism, its forward pass: 9 scatters, 10 gathers."""
    issue = _world(build)
    build.group(1, [0, 1])
    build.host(0, (0, 10), name)
    for op in ("all_gather", "reduce_scatter"):
        issue.collective(op, {0: (0, 100), 1: (0, 100)}, group_id=1)
    assert [row["role"] for row in rows(build.con, "groups")] == [role]


@first_at_once(2)
@cases
def test_the_ranks_of_all_reducing_groups_tell_a_role(
    build: Builder, ranks: list[int], role: str, source: str
) -> None:
    issue = _world(build, 6)
    build.group(1, ranks)
    issue.collective("all_reduce", dict.fromkeys(ranks, (0, 100)), group_id=1)
    assert pick(rows(build.con, "groups"), *ROLE[:3]) == [(1, role, source)]


@nightly
def test_members_that_are_not_all_known_tell_no_role(build: Builder) -> None:
    issue = _world(build, 6)
    build.group(1, [0, 1], size=3)
    issue.collective("all_reduce", {0: (0, 100), 1: (0, 100)}, group_id=1)
    assert pick(rows(build.con, "groups"), *ROLE) == [(1, "unknown", "test", None)]


@nightly
def test_a_rank_has_one_place_in_what_ranks_tell(build: Builder) -> None:
    """Groups laid out alike that share ranks are not those of tensor parallelism."""
    issue = _world(build, 6)
    for group_id, ranks in ((1, [0, 1, 2]), (2, [1, 2, 3]), (3, [4, 5])):
        build.group(group_id, ranks)
        issue.collective("all_reduce", dict.fromkeys(ranks, (0, 100)), group_id=group_id)
    assert sorted(pick(rows(build.con, "groups"), *ROLE[:3])) == [
        (1, "unknown", "test"),
        (2, "unknown", "test"),
        (3, "tp", "ranks: neighbours"),
    ]


@first_at_once()
@cases
def test_a_group_within_a_larger_one_has_its_role(
    build: Builder, inner: tuple[list[int], ...], outer: tuple[list[int], ...], role: str
) -> None:
    issue = _world(build, 8)
    for group_id, ranks in enumerate((*inner, *outer), 1):
        build.group(group_id, ranks)
        issue.collective("all_reduce", dict.fromkeys(ranks, (0, 100)), group_id=group_id)
    assert [row["role"] for row in rows(build.con, "groups")] == [role] * 6


Roles = dict[tuple[int, ...], tuple[str | None, str]]


@cases
def test_no_more_is_said_than_recorded_groups_show(
    recorded: Recorded, trace: str, roles: Roles
) -> None:
    found = recorded(trace).stream_analysis("groups").read_all().to_pylist()
    got = {tuple(row["ranks"]): (row["used_for"], row["note"] or "") for row in found}
    assert got.keys() == roles.keys()
    for ranks, (used_for, note) in roles.items():
        assert got[ranks][0] == used_for, ranks
        assert got[ranks][1].startswith(note), ranks


# FSDP's: gloo runs the reduce_scatter of neighbours, the shards of a hybrid, as an all_reduce
@pytest.mark.parametrize("name", [ACCUMULATE, "FSDP::post_backward_reduce (3)"])
def test_where_gradients_accumulate_a_group_is_data_parallel(build: Builder, name: str) -> None:
    issue = _world(build)
    build.group(1, [0, 1])
    build.host(0, (0, 100), name, tid=5)
    issue.collective("all_reduce", {0: (0, 100), 1: (0, 100)}, 50, tid=5, group_id=1)
    issue.collective("all_reduce", {0: (200, 300)}, 150, tid=5)
    assert sorted(pick(rows(build.con, "groups"), *ROLE)) == [
        (0, "world", "size is the world size", None),
        (1, "dp", "host: issued where gradients accumulate", "dp"),
    ]


def test_a_stated_role_is_not_doubted(build: Builder) -> None:
    issue = _world(build)
    build.group(1, [0, 1], role="cp", role_source="description")
    issue.collective("send", {0: (0, 100)}, group_id=1)
    assert pick(rows(build.con, "groups"), *ROLE) == [(1, "cp", "description", "cp")]


def test_groups_of_one_role_are_taken_together(build: Builder) -> None:
    issue = _world(build)
    for group_id, ranks in ((1, [0, 1]), (2, [2, 3])):
        build.group(group_id, ranks, role="tp", role_source="name")
        issue.collective("all_reduce", dict.fromkeys(ranks, (0, 100)), group_id=group_id)
    # at the same time on rank 0: counted once in the row of the role
    issue.collective("all_reduce", {0: (50, 150)}, group_id=2, stream=21)
    got = rows(build.con, "groups", per="role")
    assert pick(got, "group_id", "role", "groups", "ranks_seen", "calls", "comm_ns") == [
        (None, "tp", 2, 4, 5, 450)
    ]


def test_where_some_calls_say_how_many_bytes_the_others_are_counted(build: Builder) -> None:
    issue = _world(build)
    for n in range(17):
        issue.collective("all_gather", {0: (100 * n, 100 * n + 50)}, bytes_=8 if n < 12 else None)
    (row,) = rows(build.con, "groups")
    assert (row["calls"], row["bytes"]) == (17, 96)
    assert "5 of 17 calls do not say how many bytes: bytes is of the others" in row["note"]


def test_operations_of_no_known_group_have_a_row(build: Builder) -> None:
    issue = _world(build)
    issue.collective("all_reduce", {0: (0, 100)}, group_id=None)
    (row,) = rows(build.con, "groups")
    assert (row["group_id"], row["role"], row["comm_ns"]) == (None, "unknown", 100)
    assert row["note"].startswith("the traces do not say which group")


@nightly
def test_on_real_runs_of_one_group_it_is_what_breakdown_says(recorded: Recorded) -> None:
    run = recorded("kineto/megatron_tp8")
    (group,) = run.analyze("groups").to_dict("records")
    whole = run.analyze("breakdown", window="span")
    assert (group["role"], group["used_for"]) == ("world", "tp")
    assert group["comm_ns"] == whole["comm_ns"].sum()
    assert group["overlap_ns"] == whole["overlap_ns"].sum()
    assert group["exposed_ns"] == whole["exposed_comm_ns"].sum()
    assert group["exposed_share"] == group["exposed_ns"] / whole["window_ns"].sum()
