"""What a dump holds, by one set of names for all versions (1.4 to 2.11), pickle and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from traceweave import words
from traceweave.errors import InputError
from traceweave.sources.flight_recorder.pickles import MOST_VALUES, read_plain_pickle

MOST_BYTES = 256 << 20
"""A dump of 20,000 entries with stack traces has some 60 MB."""
MOST_ENTRIES = 1_000_000
MOST_CELLS = 20_000_000
"""Numbers and names of sizes and types over all entries, since references may repeat one list."""

ALL_RANKS = "default_pg"
"""How torch describes the group of all ranks of a job."""

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_PLACES = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")


@dataclass(frozen=True)
class Group:
    """One process group of the rank."""

    name: str
    description: str | None
    ranks: list[int] | None
    """Its members; None where the dump lists none, as gloo's."""
    enqueued: int | None = None
    """Number of the last operation that was issued, begun and finished; -1: none yet, or not
    watched."""
    started: int | None = None
    completed: int | None = None


@dataclass(frozen=True)
class Entry:
    """One operation as the recorder noted it; times in ns, UTC."""

    record: int
    group: str
    description: str | None
    seq: int | None
    p2p_seq: int | None
    is_p2p: bool
    name: str
    peer_place: int | None
    """The other side of a send or recv, by its place in the group."""
    input_sizes: list[list[int]] | None
    input_dtypes: list[str] | None
    output_sizes: list[list[int]] | None
    output_dtypes: list[str] | None
    state: str | None
    retired: bool | None
    created_ns: int | None
    started_ns: int | None
    completed_ns: int | None
    duration_ns: int | None
    timeout_ns: int | None


@dataclass(frozen=True)
class Dump:
    """One rank's dump."""

    version: str | None
    library_version: str | None
    groups: list[Group]
    entries: list[Entry]
    unread: int = 0
    """Entries that are no records of an operation."""
    example: str | None = None
    """One of them."""


@dataclass
class _Budget:
    """What may still be copied out of lists that references may repeat."""

    cells: int = field(default=MOST_CELLS)

    def take(self, count: int) -> None:
        """Raise InputError if there are not so many left."""
        self.cells -= count
        if self.cells < 0:
            raise InputError("a dump whose sizes and types are longer than any recorder's")


def read_dump(path: Path) -> Dump:
    """Read a dump of any version. Raises InputError if it is none, hostile or damaged."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise InputError(
            f"{path}: has {words.count(size)} bytes; no flight recorder dump is that large"
        )
    data = path.read_bytes()
    try:
        return parse_dump(_json(data) if data.lstrip()[:1] == b"{" else read_plain_pickle(data))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _json(data: bytes) -> object:
    if sum(map(data.count, (b"[", b"{", b","))) > MOST_VALUES:
        raise InputError(
            f"JSON of more than {words.count(MOST_VALUES)} values: no flight recorder's"
        )
    try:
        return orjson.loads(data)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"damaged JSON: {error}") from error


def parse_dump(content: object) -> Dump:
    """Return the dump that plain values stand for. Raises InputError if they are none."""
    if not isinstance(content, dict) or not ({"entries", "pg_config"} & content.keys()):
        raise InputError("not a flight recorder dump: neither entries nor groups")
    listed = content.get("entries") or []
    if not isinstance(listed, list):
        raise InputError("not a flight recorder dump: its entries are no list")
    if len(listed) > MOST_ENTRIES:
        raise InputError(f"a dump of more than {words.count(MOST_ENTRIES)} entries")
    budget = _Budget()
    entries, unread, example = [], 0, None
    ids: dict[str, str] = {}
    for position, raw in enumerate(listed):
        entry = _entry(raw, position, budget) if isinstance(raw, dict) else None
        if entry is None:
            unread, example = unread + 1, example or _shown(raw)
            continue
        entries.append(entry)
        if (number := _int(raw.get("pg_id"))) is not None:
            ids[entry.group] = str(number)
    return Dump(
        version=_text(content.get("version")),
        library_version=_text(content.get("comm_lib_version") or content.get("nccl_version")),
        groups=list(_groups(content, entries, ids, budget)),
        entries=entries,
        unread=unread,
        example=example,
    )


def _entry(raw: Mapping[str, object], position: int, budget: _Budget) -> Entry | None:
    name, label = _text(raw.get("profiling_name")), raw.get("process_group")
    if name is None:
        return None
    if isinstance(label, list | tuple) and label:
        group, description = _text(label[0]), _text(label[1]) if len(label) > 1 else None
    else:  # versions before 2.0 know groups by number alone
        group, description = _text(raw.get("pg_id")), None
    seq = _int(raw.get("collective_seq_id", raw.get("seq_id")))
    places = _PLACES.search(name)
    is_p2p = raw.get("is_p2p")
    milliseconds = raw.get("duration_ms")
    timeout = _int(raw.get("timeout_ms"))
    record = _int(raw.get("record_id", raw.get("id")))
    return Entry(
        record=position if record is None else record,
        group=group or "",
        description=description or None,
        seq=seq,
        p2p_seq=_int(raw.get("p2p_seq_id")),
        is_p2p=is_p2p if isinstance(is_p2p, bool) else places is not None,
        name=name,
        peer_place=None if places is None else _int(int(places[3][:9])),
        input_sizes=_sizes(raw.get("input_sizes"), budget),
        input_dtypes=_names(raw.get("input_dtypes"), budget),
        output_sizes=_sizes(raw.get("output_sizes"), budget),
        output_dtypes=_names(raw.get("output_dtypes"), budget),
        state=_text(raw.get("state")),
        retired=retired if isinstance(retired := raw.get("retired"), bool) else None,
        created_ns=_time(raw.get("time_created_ns")),
        started_ns=_time(raw.get("time_discovered_started_ns", raw.get("time_discovered_started"))),
        completed_ns=_time(
            raw.get("time_discovered_completed_ns", raw.get("time_discovered_completed"))
        ),
        duration_ns=round(milliseconds * 1e6)
        if isinstance(milliseconds, int | float) and 0 < milliseconds < 1e12
        else None,
        timeout_ns=None if timeout is None or not 0 <= timeout < 10**12 else timeout * 1_000_000,
    )


def _groups(
    content: Mapping[str, object], entries: list[Entry], ids: dict[str, str], budget: _Budget
) -> Iterator[Group]:
    config = content.get("pg_config")
    status = content.get("pg_status")
    configured = {
        str(name): value
        for name, value in (config if isinstance(config, dict) else {}).items()
        if name and isinstance(value, dict)
    }
    # gloo lists groups without their names, each over the one before: of those that torch (2.13)
    # makes for it only the group of all ranks has members there
    unnamed = config.get("") if isinstance(config, dict) else None
    all_ranks = _members(unnamed.get("ranks"), budget) if isinstance(unnamed, dict) else None
    by_id = {
        str(number): value
        for number, value in (status if isinstance(status, dict) else {}).items()
        if isinstance(value, dict)
    }
    described = {entry.group: entry.description for entry in entries if entry.group}
    ids = _all_ids(list(configured), list(by_id), ids)
    for name in dict.fromkeys([*configured, *described]):
        stated: Mapping[str, object] = configured.get(name, {})
        now: Mapping[str, object] = by_id.get(ids.get(name, ""), {})
        description = _text(stated.get("desc")) or described.get(name)
        ranks = _members(stated.get("ranks"), budget)
        yield Group(
            name,
            description,
            all_ranks if ranks is None and description == ALL_RANKS else ranks,
            _int(now.get("last_enqueued_collective")),
            _int(now.get("last_started_collective")),
            _int(now.get("last_completed_collective")),
        )


def _all_ids(names: list[str], numbers: list[str], known: dict[str, str]) -> dict[str, str]:
    """Return the id that a process gives each of its groups, which entries tell of theirs alone.

    Names of groups and ids count up as groups are made: where there are as many of both, and no
    entry says otherwise, the n-th is the n-th.
    """
    if len(names) != len(numbers) or not all(n.isdecimal() for n in [*names, *numbers]):
        return known
    pairs = dict(zip(sorted(names, key=int), sorted(numbers, key=int), strict=True))
    return pairs if all(pairs.get(name) == number for name, number in known.items()) else known


def _members(value: object, budget: _Budget) -> list[int] | None:
    """Return the members of a group, which are a text in dumps: '[0, 1]'."""
    if isinstance(value, str):
        budget.take(len(value))
        numbers = [int(digits) for digits in re.findall(r"\d{1,9}", value)]
    elif isinstance(value, list):
        budget.take(len(value))
        numbers = [number for number in value if isinstance(number, int) and 0 <= number < 10**9]
    else:
        return None
    return sorted(set(numbers)) or None


def _sizes(value: object, budget: _Budget) -> list[list[int]] | None:
    if not isinstance(value, list):
        return None
    budget.take(len(value))
    sizes = []
    for shape in value:
        if not isinstance(shape, list):
            return None
        budget.take(len(shape))
        sizes.append([number for number in map(_int, shape) if number is not None])
    return sizes


def _names(value: object, budget: _Budget) -> list[str] | None:
    if not isinstance(value, list):
        return None
    budget.take(len(value))
    return [text for text in map(_text, value) if text is not None]


def _time(value: object) -> int | None:
    """Return a time; JSON dumps have 0 where a pickle has None."""
    return _int(value) or None


def _int(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if _LOWEST <= value <= _HIGHEST else None


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    if isinstance(value, int) and _int(value) is None:
        return None
    return str(value)[:1000].encode("utf-8", "replace").decode()


def _shown(value: object) -> str:
    return f"{type(value).__name__} without a profiling_name"
