from tests.cases import cases
from traceweave.matching.groups import Group, Label, describe_role, find_groups


def label(number: int, rank: int, name: str | None = None, **facts: object) -> Label:
    known: dict[str, object] = {
        "description": None, "ranks": None, "size": None, "comm": None,
        "evidence": "metadata" if name else "name", "stream": 20, "sort": "collectives",
    } | facts  # fmt: skip
    return Label(number, rank, name, **known)  # type: ignore[arg-type]


def facts(group: Group) -> tuple[object, ...]:
    return (group.name, group.size, group.ranks, group.role, group.open)


@cases
def test_a_description_tells_the_role(text: str | None, role: str) -> None:
    assert describe_role(text) == role


def test_one_name_with_two_lists_of_members_is_two_groups() -> None:
    labels = [
        label(0, 0, "5", ranks=(0, 1), size=2, description="mesh_tp"),
        label(1, 1, "5", ranks=(0, 1), size=2, description="mesh_tp"),
        label(2, 2, "5", ranks=(2, 3), size=2, description="mesh_tp"),
    ]
    groups, index = find_groups(labels, {0, 1, 2}, 4)
    assert [facts(g) for g in groups] == [
        ("5", 2, [0, 1], "tp", False),
        ("5", 2, [2, 3], "tp", False),
    ]
    assert index.tolist() == [0, 0, 1]


def test_a_cut_list_of_members_joins_the_group_that_lists_the_rank() -> None:
    labels = [label(0, 0, "0", ranks=(0, 1, 2), size=3), label(1, 1, "0", size=3)]
    groups, index = find_groups(labels, {0, 1}, 3)
    assert [facts(g) for g in groups] == [("0", 3, [0, 1, 2], "world", False)]
    assert index.tolist() == [0, 0]


def test_a_name_on_more_ranks_than_the_group_has_members_is_open() -> None:
    groups, _ = find_groups([label(r, r, "3", size=2) for r in range(3)], {0, 1, 2}, 8)
    assert [facts(g) for g in groups] == [("3", 2, [0, 1, 2], "unknown", True)]


def test_a_call_without_label_belongs_to_the_group_of_its_stream() -> None:
    labels = [
        label(0, 0, "0", ranks=(0, 1), size=2, stream=37), label(1, 0, stream=37),
        label(2, 1, "0", ranks=(0, 1), size=2, stream=23), label(3, 1, stream=23),
    ]  # fmt: skip
    groups, index = find_groups(labels, {0, 1}, 2)
    assert [facts(g) for g in groups] == [("0", 2, [0, 1], "world", False)]
    assert index.tolist() == [0, 0, 0, 0]


def test_calls_without_any_label_may_be_any_groups() -> None:
    groups, index = find_groups([label(r, r) for r in range(4)], {0, 1, 2, 3}, 4)
    assert [facts(g) for g in groups] == [(None, None, [0, 1, 2, 3], "unknown", True)]
    assert groups[0].membership == "unknown: the traces name no group"
    assert index.tolist() == [0, 0, 0, 0]


def test_a_communicator_is_a_group_whatever_its_labels() -> None:
    labels = [label(0, 0, comm="ab"), label(1, 1, comm="ab"), label(2, 1, comm="cd")]
    groups, index = find_groups(labels, {0, 1}, 2)
    assert [facts(g) for g in groups] == [
        (None, None, [0, 1], "unknown", False),
        (None, None, [1], "unknown", False),
    ]
    assert index.tolist() == [0, 0, 1]


def test_a_communicator_of_unknown_size_is_the_group_whose_other_members_it_has() -> None:
    # ranks 0 and 1 were recorded by Kineto, 2 and 3 by nsys after NCCL had set up
    world, pair, crossed = (0, 1, 2, 3), (0, 1), (1, 3)
    labels = [
        label(0, 0, "0", ranks=world, size=4), label(1, 1, "0", ranks=world, size=4),
        label(2, 0, "1", ranks=pair, size=2), label(3, 1, "1", ranks=pair, size=2),
        label(4, 1, "2", ranks=crossed, size=2),
        label(5, 2, comm="a"), label(6, 3, comm="a"), label(7, 3, comm="b"),
    ]  # fmt: skip
    _, index = find_groups(labels, {0, 1, 2, 3}, 4)
    assert index[5] == index[6] == index[0]
    assert index[7] == index[4]
    assert len(set(index.tolist())) == 3


def test_a_communicator_that_may_be_two_groups_is_neither() -> None:
    labels = [
        label(0, 0, "0", ranks=(0, 1), size=2), label(1, 0, "1", ranks=(0, 1), size=2),
        label(2, 1, comm="a"),
    ]  # fmt: skip
    _, index = find_groups(labels, {0, 1}, 2)
    assert len(set(index.tolist())) == 3
