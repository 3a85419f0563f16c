"""What the top level of a Kineto file says: rank, process groups, devices, base time.

The top level lies around the event array, before it in files of newer torch, partly after it in
older ones. It may be damaged or cut off; then what can still be recognized by its key is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from traceweave.sources.captured import Captured, parse_captured
from traceweave.sources.kineto.repair import repair_event
from traceweave.sources.model import Process
from traceweave.sources.unpack import ZEROS
from traceweave.sources.values import LATEST_NS, MOST_RANK, digits, listed, mapping, text

_VERSIONS = {
    "cuda_runtime_version": "CUDA",
    "cuda_driver_version": "CUDA driver",
    "hip_runtime_version": "HIP",
    "hip_driver_version": "HIP driver",
}

_SHOWN_CHARACTERS = 40

_SURROUNDINGS = "what surrounds its events is damaged or cut off"

_MOST_MENDED_BYTES = 4 << 20
"""Mending takes seconds per 10 MB, and what is as large and damaged is cut off."""

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[\s*[^\]\s]')


@dataclass(frozen=True)
class Properties:
    """The top-level keys of a Kineto file that traceweave uses."""

    base_ns: int
    process: Process
    """As far as it tells."""
    no_rank: str | None
    """What stands where the rank should and is none: '-1', '1.5', 'true'."""
    groups: tuple[dict[str, Any], ...]
    """The process groups that distributedInfo.pg_config lists: name, description, ranks, size."""
    versions: tuple[tuple[str, str], ...]
    """As Trace has them."""
    captured: Captured
    damaged: str | None
    """Why some of these may be missing."""
    more_events: bool
    """Whether there may be events where none are read."""


def parse_properties(head: bytes, tail: bytes) -> Properties:
    """Read the text before the array (opening bracket included) and after it (closing bracket
    included).
    """
    top, damaged = _top_level(head, tail)
    info = mapping(top.get("distributedInfo"))
    captured = mapping(top.get("traceweave"))
    rank = digits(info.get("rank"), MOST_RANK)
    process = Process(
        key=0,
        rank=rank,
        rank_source=None if rank is None else "distributedInfo",
        world_size=digits(info.get("world_size"), MOST_RANK) or None,
        host=text(captured.get("host")) or _known(top.get("host_name"), "removed"),
        gpu_names=_gpu_names(top.get("deviceProperties")),
        backend=text(info.get("backend")),
        nccl_version=_known(info.get("nccl_version"), "unknown"),
    )
    return Properties(
        base_ns=digits(top.get("baseTimeNanoseconds"), LATEST_NS) or 0,
        process=process,
        no_rank=_as_written(info.get("rank")) if rank is None else None,
        groups=tuple(_groups(info.get("pg_config"))),
        versions=_versions(top),
        captured=parse_captured(captured),
        damaged=damaged,
        more_events=damaged not in (None, _SURROUNDINGS),
    )


def _known(value: object, unknown: str) -> str | None:
    """Return a text, but for the one that says that nothing is known."""
    found = text(value)
    return None if found == unknown else found


def _top_level(head: bytes, tail: bytes) -> tuple[dict[str, Any], str | None]:
    """Return the top level and what is wrong with it; a tail that is missing altogether is not."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        more = tail.strip() not in (b"", b"]")
        return {}, "something follows its events" if more else None
    damaged = None
    if _EVENTS.search(tail):
        damaged = "it has another traceEvents array, which was not read"
    around = head.removeprefix(b"\xef\xbb\xbf") + (tail or b"]}")
    valid: bytes | None = b"" if ZEROS in around else around
    if valid and len(valid) < _MOST_MENDED_BYTES:
        valid = repair_event(valid)
    try:
        return mapping(orjson.loads(valid or b"")), damaged
    except orjson.JSONDecodeError:
        return _recognized_keys(around), damaged or _SURROUNDINGS


def _recognized_keys(text: bytes) -> dict[str, Any]:
    """Pick single values out of a damaged top level."""
    found: dict[str, Any] = {}
    if match := re.search(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,20})\b', text):
        found["baseTimeNanoseconds"] = int(match[1])
    if match := re.search(rb'"distributedInfo"\s*:\s*\{', text):
        info = text[match.end() : match.end() + 4096]
        numbers = {
            key.decode(): int(value)
            for key, value in re.findall(rb'"(rank|world_size)"\s*:\s*(\d{1,20})\s*[,}]', info)
        }
        found["distributedInfo"] = numbers
    return found


def _groups(config: object) -> Iterator[dict[str, Any]]:
    for entry in map(mapping, listed(config)):
        if (name := text(entry.get("pg_name"))) is not None:
            ranks = _ranks(entry.get("ranks"))
            size = digits(entry.get("pg_size"), MOST_RANK) or (len(ranks) if ranks else None)
            description = text(entry.get("pg_desc"))
            yield {"name": name, "description": description, "ranks": ranks, "size": size}


def _ranks(value: object) -> list[int] | None:
    if isinstance(value, str):
        # on-demand captures write the list as text, cut to 30 items with an ellipsis
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    ranks = [digits(rank, MOST_RANK) for rank in listed(value)]
    known = [rank for rank in ranks if rank is not None]
    return sorted(known) if known and len(known) == len(ranks) else None


def _gpu_names(devices: object) -> tuple[tuple[int, str], ...]:
    named = (
        (digits(d.get("id"), MOST_RANK), text(d.get("name"))) for d in map(mapping, listed(devices))
    )
    return tuple((number, name) for number, name in named if number is not None and name)


def _versions(top: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the versions in the top level; CUDA's are 1000 * major + 10 * minor."""
    found = []
    for key, what in _VERSIONS.items():
        if number := digits(top.get(key), MOST_RANK):
            cuda = f"{number // 1000}.{number % 1000 // 10}"
            found.append((what, cuda if what.startswith("CUDA") else str(number)))
    return tuple(found)


def _as_written(value: object) -> str | None:
    """Return a value as the file has it, in short; None for null and where there is none."""
    return None if value is None else orjson.dumps(value).decode()[:_SHOWN_CHARACTERS]
