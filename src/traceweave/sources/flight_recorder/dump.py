"""What a dump holds, by one set of names for all versions (1.4 to 2.11), pickle and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from traceweave import words
from traceweave.errors import InputError
from traceweave.sources.flight_recorder.pickles import MOST_VALUES, read_plain_pickle
from traceweave.sources.values import digits, listed, mapping, text

MOST_BYTES = 256 << 20
"""A dump of 20,000 entries with stack traces has some 60 MB."""
MOST_ENTRIES = 1_000_000
MOST_CELLS = 20_000_000
"""Numbers and names of sizes and types over all entries, since references may repeat one list."""

ALL_RANKS = "default_pg"
"""How torch describes the group of all ranks of a job."""

_PLACES = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")


Row = dict[str, Any]
"""By the columns of base.flight_calls or base.flight_groups."""


@dataclass(frozen=True)
class Dump:
    """One rank's dump; times in ns, UTC."""

    version: str | None
    groups: list[Row]
    """The rank's process groups. Of operations issued, begun and finished the number of the last;
    -1: none yet, or not watched. No members where the dump lists none, as gloo's.
    """
    entries: list[Row]
    """Operations as the recorder noted them."""
    unread: int = 0
    """Entries that are no records of an operation."""
    example: str | None = None
    """One of them."""


@dataclass
class _Budget:
    """What may still be copied out of lists that references may repeat."""

    cells: int = MOST_CELLS

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
    entries = content.get("entries") or []
    if not isinstance(entries, list):
        raise InputError("not a flight recorder dump: its entries are no list")
    if len(entries) > MOST_ENTRIES:
        raise InputError(f"a dump of more than {words.count(MOST_ENTRIES)} entries")
    budget = _Budget()
    read: list[Row] = []
    example = None
    ids: dict[str, str] = {}
    for position, raw in enumerate(entries):
        entry = _entry(raw, position, budget) if isinstance(raw, dict) else None
        if entry is None:
            example = example or f"{type(raw).__name__} without a profiling_name"
            continue
        read.append(entry)
        if (number := _int(raw.get("pg_id"))) is not None:
            ids[entry["group_name"]] = str(number)
    groups = list(_groups(content, read, ids, budget))
    ranks = {group["group_name"]: group["group_ranks"] for group in groups}
    described = {group["group_name"]: group["group_desc"] for group in groups}
    for entry in read:
        entry["group_ranks"] = ranks.get(entry["group_name"])
        entry["group_desc"] = described.get(entry["group_name"])
    version = text(content.get("version"))
    return Dump(version, groups, read, len(entries) - len(read), example)


def _entry(raw: Mapping[str, object], position: int, budget: _Budget) -> Row | None:
    name, label = text(raw.get("profiling_name")), raw.get("process_group")
    if name is None:
        return None
    if isinstance(label, list | tuple) and label:
        group, description = text(label[0]), text(label[1]) if len(label) > 1 else None
    else:  # versions before 2.0 know groups by number alone
        number = _int(raw.get("pg_id"))
        group, description = None if number is None else str(number), None
    places = _PLACES.search(name)
    is_p2p, retired = raw.get("is_p2p"), raw.get("retired")
    milliseconds = raw.get("duration_ms")
    timeout = digits(raw.get("timeout_ms"), 10**12)
    record = _int(raw.get("record_id", raw.get("id")))
    return {
        "record_id": position if record is None else record,
        "group_name": group or "",
        "group_desc": description,
        "seq": _int(raw.get("collective_seq_id", raw.get("seq_id"))),
        "p2p_seq": _int(raw.get("p2p_seq_id")),
        "is_p2p": is_p2p if isinstance(is_p2p, bool) else places is not None,
        "name": name,
        # the other side of a send or recv, by its place in the group
        "peer_place": None if places is None else int(places[3][:9]),
        "input_sizes": _sizes(raw.get("input_sizes"), budget),
        "input_dtypes": _names(raw.get("input_dtypes"), budget),
        "output_sizes": _sizes(raw.get("output_sizes"), budget),
        "output_dtypes": _names(raw.get("output_dtypes"), budget),
        "state": text(raw.get("state")),
        "retired": retired if isinstance(retired, bool) else None,
        "created_local_ns": _time(raw, "time_created_ns"),
        "started_local_ns": _time(raw, "time_discovered_started_ns", "time_discovered_started"),
        "completed_local_ns": _time(
            raw, "time_discovered_completed_ns", "time_discovered_completed"
        ),
        "duration_ns": round(milliseconds * 1e6)
        if isinstance(milliseconds, int | float) and 0 < milliseconds < 1e12
        else None,
        "timeout_ns": None if timeout is None else timeout * 1_000_000,
    }


def _groups(
    content: Mapping[str, object], entries: list[Row], ids: dict[str, str], budget: _Budget
) -> Iterator[Row]:
    config = mapping(content.get("pg_config"))
    configured = {str(name): mapping(value) for name, value in config.items() if name}
    # gloo lists groups without their names, each over the one before: of those that torch (2.13)
    # makes for it only the group of all ranks has members there
    all_ranks = _members(mapping(config.get("")).get("ranks"), budget)
    status = mapping(content.get("pg_status"))
    by_id = {str(number): mapping(value) for number, value in status.items()}
    described = {e["group_name"]: e["group_desc"] for e in entries if e["group_name"]}
    ids = _all_ids(list(configured), list(by_id), ids)
    for name in dict.fromkeys([*configured, *described]):
        stated = configured.get(name, {})
        now = by_id.get(ids.get(name, ""), {})
        description = text(stated.get("desc")) or described.get(name)
        ranks = _members(stated.get("ranks"), budget)
        yield {
            "group_name": name,
            "group_desc": description,
            "group_ranks": all_ranks if ranks is None and description == ALL_RANKS else ranks,
            "last_enqueued": _int(now.get("last_enqueued_collective")),
            "last_started": _int(now.get("last_started_collective")),
            "last_completed": _int(now.get("last_completed_collective")),
        }


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
    written = value if isinstance(value, str) else listed(value)
    budget.take(len(written))  # before it is read: references may repeat it
    found = re.findall(r"\d{1,9}", written) if isinstance(written, str) else written
    ranks = (digits(number, 10**9 - 1) for number in found)
    return sorted({rank for rank in ranks if rank is not None}) or None


def _sizes(value: object, budget: _Budget) -> list[list[int]] | None:
    if not isinstance(value, list):
        return None
    budget.take(len(value))
    if not all(isinstance(shape, list) for shape in value):
        return None
    for shape in value:
        budget.take(len(shape))
    return [[number for number in map(_int, shape) if number is not None] for shape in value]


def _names(value: object, budget: _Budget) -> list[str] | None:
    if not isinstance(value, list):
        return None
    budget.take(len(value))
    return [name for name in map(text, value) if name is not None]


def _time(raw: Mapping[str, object], key: str, older: str = "") -> int | None:
    """Return a time; JSON dumps have 0 where a pickle has None."""
    return _int(raw.get(key, raw.get(older))) or None


def _int(value: object) -> int | None:
    return digits(value, least=-(2**63))
