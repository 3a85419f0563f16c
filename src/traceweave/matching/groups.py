"""Which calls belong to one process group: from the labels that the traces put on calls to groups
of the run.

A label is one distinct combination of rank, group name, description, members, size, communicator,
evidence, stream and sort of calls: there are few of them, whatever the number of calls. Identity,
in this order: the communicator hash (nsys); the group's name with its members, because one name can
stand for several groups after a split; the name with the size, where the trace cuts the list of
members; the stream, where a call without any label shares it with calls of one labelled group
(unless those are messages: it may be another, and does not say to whom). What is left, or has a
label that stands for several groups, is open: open_calls.py looks for its groups. The ways in which
these may lie over the ranks of the job are the axes of a mesh (`Job`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import duckdb
import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.calls import STREAM_SQL, Calls

STATED_BY_JOB = "the job says so"
NO_ROLE = "nothing in the traces says what the group is for"


class Label(NamedTuple):
    """One distinct label of base.known_calls."""

    label: int
    rank: int
    name: str | None
    description: str | None
    ranks: tuple[int, ...] | None
    size: int | None
    comm: str | None
    evidence: str
    stream: int | None
    sort: str
    """What its calls are: 'messages', 'collectives' or 'unknown'."""


@dataclass
class Group:
    """One process group of the run."""

    key: tuple[object, ...]
    name: str | None = None
    description: str | None = None
    size: int | None = None
    members: frozenset[int] | None = None
    """The members as a trace lists them; None if no trace does."""
    seen: set[int] = field(default_factory=set)
    labelled: bool = True
    open: bool = False
    """The label, or none, stands for several groups, as far as labels tell."""
    membership: str = "stated"
    """What the members rest on."""
    role: str = "unknown"
    role_source: str = NO_ROLE
    stated_role: str | None = None
    """What the job says it is for: a role, or its own words where they name none."""

    @property
    def ranks(self) -> list[int]:
        """The members as far as known, ascending."""
        return sorted(self.members or self.seen)


_ROLES = (
    # a group over two axes has neither role
    (r"(tensor|tp|data|dp|context|cp)_?and_?|_and_|^model_parallel|embedding", "unknown"),
    (r"pipe(line)?_|pipe(line)?$|(^|[^a-z])pp([^a-z]|$)", "pp"),
    (r"data_?parallel|fsdp|ddp|hsdp|zero|(^|[^a-z])dp([^a-z]|$)|distributed_optimizer", "dp"),
    (r"tensor|(^|[^a-z])tp([^a-z]|$)", "tp"),
    (r"expert|moe|(^|[^a-z])ep([^a-z]|$)", "ep"),
    (r"context|sequence|ulysses|(^|[^a-z])(cp|sp)([^a-z]|$)", "cp"),
)


def describe_role(text: str | None) -> str:
    """Return the role that a group's description names, 'unknown' if it names none or two.

    Spellings: Megatron's TENSOR_MODEL_PARALLEL_GROUP, torch device meshes' mesh_dp_shard, and plain
    words.
    """
    lowered = (text or "").lower()
    return next((role for pattern, role in _ROLES if re.search(pattern, lowered)), "unknown")


_KEY = (
    "k.rank, k.group_name, k.group_desc, k.group_ranks, k.group_size, k.comm_id, k.evidence,"
    f" {STREAM_SQL}, CASE WHEN k.op IN ('send', 'recv') THEN 'messages'"
    " WHEN k.op = 'unknown' THEN 'unknown' ELSE 'collectives' END"
)


def read_labels(con: duckdb.DuckDBPyConnection, calls: Calls) -> list[Label]:
    """Return the labels of calls, and write into `calls.label` which of them each carries."""
    # lists of members are long and few: by a 64-bit hash labels are compared once each
    columns = con.execute(
        f"SELECT k.call_id, hash({_KEY}) AS key FROM base.known_calls AS k"
        " ORDER BY k.rank, k.start_local_ns, k.call_id"
    ).fetchnumpy()
    _, first, label = np.unique(columns["key"], return_index=True, return_inverse=True)
    firsts = np.asarray(columns["call_id"])[first]
    rows = con.execute(
        f"SELECT k.call_id, {_KEY} FROM base.known_calls AS k"
        f" JOIN (SELECT unnest(?::BIGINT[]) AS call_id) USING (call_id) ORDER BY {_KEY}",
        [firsts.tolist()],
    ).fetchall()
    place = {call: number for number, (call, *_) in enumerate(rows)}
    calls.label[:] = np.array([place[call] for call in firsts.tolist()], np.int64)[label]
    return [
        Label(number, rank, name, description, tuple(sorted(ranks)) if ranks else None, *rest)
        for number, (_, rank, name, description, ranks, *rest) in enumerate(rows)
    ]


def find_groups(
    labels: list[Label], all_ranks: set[int], world_size: int | None
) -> tuple[list[Group], Ints]:
    """Return the groups of a run and, per label, the index of its group."""
    by_key: dict[tuple[object, ...], Group] = {}
    keys = _joined(labels, _keys(labels))
    for label, key in zip(labels, keys, strict=True):
        group = by_key.setdefault(key, Group(key))
        group.seen.add(label.rank)
        group.labelled = key[0] != "unlabelled"
        group.name = group.name or label.name
        group.description = group.description or label.description
        group.size = group.size or label.size
        if group.members is None and label.ranks is not None:
            group.members = frozenset(label.ranks)
    groups = [by_key[key] for key in sorted(by_key, key=_order)]
    for group in groups:
        _complete(group, all_ranks, world_size)
    index = {group.key: number for number, group in enumerate(groups)}
    return groups, np.array([index[key] for key in keys], dtype=np.int64)


def recorded_groups(con: duckdb.DuckDBPyConnection, known: list[Group]) -> list[Group]:
    """Return the groups that the job's flight recorder lists and no call belongs to."""
    there = {(group.name, tuple(group.ranks)) for group in known}
    rows = con.execute(
        "SELECT group_name, group_ranks, any_value(group_desc), list(DISTINCT rank)"
        " FROM base.flight_groups WHERE group_ranks IS NOT NULL GROUP BY ALL"
    ).fetchall()
    groups = [
        Group(
            ("name", name, tuple(ranks)), name, description, len(ranks), frozenset(ranks), {*seen}
        )
        for name, ranks, description, seen in rows
        if (name, tuple(ranks)) not in there
    ]
    for group in groups:
        _complete(group, set(), None)
    return sorted(groups, key=lambda group: _order(group.key))


def state_roles(con: duckdb.DuckDBPyConnection, groups: list[Group]) -> None:
    """Give groups the role that the job itself stated for them; a group of all ranks stays one.

    A group that was found without a label has no name; its members tell which it is.
    """
    stated: dict[tuple[str | None, tuple[int, ...]], set[str]] = defaultdict(set)
    for name, ranks, role in con.execute(
        "SELECT group_name, group_ranks, role FROM base.group_roles"
    ).fetchall():
        stated[name, tuple(ranks)].add(role)
        stated[None, tuple(ranks)].add(role)
    for group in groups:
        words = stated.get((group.name, tuple(group.ranks)), set())
        if len(words) != 1 or group.open:
            continue
        (group.stated_role,) = words
        role = describe_role(group.stated_role)
        if role != "unknown":
            group.stated_role = role
            if group.role != "world":
                group.role, group.role_source = role, STATED_BY_JOB


def _keys(labels: list[Label]) -> list[tuple[object, ...]]:
    """The identity of each label's group."""
    listed: dict[tuple[str, int | None], set[tuple[int, ...]]] = defaultdict(set)
    for label in labels:
        if label.name is not None and label.ranks is not None:
            listed[label.name, label.size or len(label.ranks)].add(label.ranks)
    keys = [_own_key(label, listed) for label in labels]
    on_stream: dict[tuple[int, int], set[tuple[object, ...]]] = defaultdict(set)
    messages: set[tuple[int, int]] = set()
    for label, key in zip(labels, keys, strict=True):
        if key[0] != "unlabelled" and label.stream is not None:
            on_stream[label.rank, label.stream].add(key)
            if label.sort == "messages":
                messages.add((label.rank, label.stream))
    for position, label in enumerate(labels):
        if keys[position][0] == "unlabelled" and label.stream is not None:
            if label.sort == "unknown" and (label.rank, label.stream) in messages:
                continue
            candidates = on_stream.get((label.rank, label.stream), set())
            if len(candidates) == 1:
                keys[position] = next(iter(candidates))
    return keys


def _joined(labels: list[Label], keys: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Take a communicator and a named group for one where profilers of two sorts recorded the run
    and no other pairing is possible.

    nsys knows communicators by a number and a size, Kineto groups by name and members.
    """
    seen: dict[tuple[object, ...], set[int]] = defaultdict(set)
    sizes: dict[tuple[object, ...], int | None] = {}
    members: dict[tuple[object, ...], set[int]] = {}
    for label, key in zip(labels, keys, strict=True):
        seen[key].add(label.rank)
        sizes[key] = sizes.get(key) or label.size
        if key[0] == "name" and label.ranks is not None:
            members[key] = set(label.ranks)
    communicators = [key for key in seen if key[0] == "communicator"]
    counting = {rank for key in communicators for rank in seen[key]}
    fits = {
        key: [g for g in members if _may_be(seen[key], sizes[key], seen[g], members[g], counting)]
        for key in communicators
    }
    taken = Counter(g for found in fits.values() for g in found)
    pairs = {c: found[0] for c, found in fits.items() if len(found) == 1 and taken[found[0]] == 1}
    return [pairs.get(key, key) for key in keys]


def _may_be(
    here: set[int], size: int | None, there: set[int], members: set[int], counting: set[int]
) -> bool:
    """Whether a communicator of ranks `here` may be the group `members` that ranks `there` name:
    of one size or, where its creation was not recorded, if all members that know communicators
    (`counting`) are in it.
    """
    if here & there or not here <= members:
        return False
    return size == len(members) if size is not None else here == members & counting


def _own_key(
    label: Label, listed: dict[tuple[str, int | None], set[tuple[int, ...]]]
) -> tuple[object, ...]:
    if label.comm is not None:
        return ("communicator", label.comm)
    if label.name is None:
        if label.ranks is not None:
            return ("ranks", label.ranks)
        return ("unlabelled", "on the host" if label.stream is None else "on a GPU")
    if label.ranks is not None:
        return ("name", label.name, label.ranks)
    known = [r for r in listed[label.name, label.size] if label.rank in r]
    if len(known) == 1:
        return ("name", label.name, known[0])
    return ("name and size", label.name, label.size)


def _order(key: tuple[object, ...]) -> tuple[str, ...]:
    """Numbers sort as numbers, the rest as text, so that group_id does not depend on the order of
    the files.
    """
    return tuple(f"{part:020d}" if isinstance(part, int) else _padded(part) for part in key)


def _padded(part: object) -> str:
    if isinstance(part, tuple):
        return " ".join(f"{n:09d}" for n in part)
    text = str(part)
    return text.rjust(20, "0") if text.isdigit() else text


def _complete(group: Group, all_ranks: set[int], world_size: int | None) -> None:
    """Fill in size, whether it is one group, and role."""
    if not group.labelled:
        group.open, group.membership = True, "unknown: the traces name no group"
        return
    if group.members is not None:
        group.size = group.size or len(group.members)
    if group.size is not None and len(group.seen) > group.size:
        group.open, group.membership = True, "unknown: several groups have this label"
    if group.size is not None and world_size is not None and group.size == world_size:
        group.role, group.role_source = "world", "size is the world size"
    elif group.description is not None and re.search("default_pg", group.description):
        group.role, group.role_source = "world", "description"
    elif world_size is None and len(all_ranks) > 1 and group.seen == all_ranks:
        group.role, group.role_source = "world", "every rank of the run takes part"
    elif (role := describe_role(group.description or group.name)) != "unknown":
        group.role = role
        group.role_source = "description" if group.description else "name"


@dataclass(frozen=True)
class Job:
    """What is known of the ranks of the job."""

    ranks: tuple[int, ...]
    """Those that were recorded, ascending."""
    size: int | None

    @property
    def recorded(self) -> int:
        """How many ranks were recorded."""
        return len(self.ranks)

    @property
    def complete(self) -> bool:
        """Every rank was recorded, as far as known."""
        return self.size is None or self.recorded >= self.size

    @property
    def lacks(self) -> int:
        """How many ranks were not recorded, as far as known."""
        return 0 if self.complete else (self.size or 0) - self.recorded

    @property
    def everyone(self) -> Sequence[int]:
        """All ranks of the job, as far as known, ascending."""
        if self.size is None or self.ranks[-1] >= self.size:
            return self.ranks
        return range(self.size)

    def group_of(self, ranks: list[int]) -> list[int] | None:
        """Return the smallest of the groups that divide a job evenly, at equal distances and the
        others beside them, of which `ranks`, ascending, are all that was recorded, and most of it;
        None if they are of none.
        """
        everyone, recorded = self.everyone, set(self.ranks)
        for members in range(len(ranks), min(2 * len(ranks), len(everyone) + 1)):
            for distance in range(1, len(everyone) // members + 1):
                if len(everyone) % (members * distance) == 0:
                    for group in _side_by_side(everyone, members, distance):
                        if [rank for rank in group if rank in recorded] == ranks:
                            return group
        return None

    def beside(self, group: list[int]) -> list[list[int]]:
        """Return the other groups of the layout that a group of two ranks or more is of."""
        first, second = (self.everyone.index(rank) for rank in group[:2])
        every = _side_by_side(self.everyone, len(group), second - first)
        return [other for other in every if other != group]

    def layouts(self, ranks: list[int]) -> Iterator[tuple[list[Ints], list[bool]]]:
        """Ways in which `ranks`, ascending, may be several groups, by their places in that list,
        and whether each of these was recorded whole.
        """
        group = np.array(self.group_of(ranks) or self.everyone)
        for parts in layouts(len(group)):
            recorded = [np.flatnonzero(np.isin(ranks, group[part])) for part in parts]
            whole = [bool(np.isin(group[part], self.ranks).all()) for part in parts]
            kept = [number for number, own in enumerate(recorded) if len(own)]
            if len(kept) > 1:
                yield [recorded[number] for number in kept], [whole[number] for number in kept]

    @property
    def pair(self) -> bool:
        """There are two ranks: whatever one of them does together, it does with the other."""
        return self.size == 2 and self.recorded == 2


def layouts(members: int) -> Iterator[list[Ints]]:
    """Ways in which groups lie over `members` ranks in their order: each by itself, neighbours
    together, and ranks at equal distances."""
    for size in range(1, members // 2 + 1):
        if members % size == 0:
            for distance in (1, members // size)[:size]:
                yield [np.array(g) for g in _side_by_side(range(members), size, distance)]


def _side_by_side(ranks: Sequence[int], members: int, distance: int) -> list[list[int]]:
    """All ranks in groups of so many members at equal distances."""
    block = members * distance
    return [
        [*ranks[first : first + block : distance]]
        for begin in range(0, len(ranks), block)
        for first in range(begin, begin + distance)
    ]
