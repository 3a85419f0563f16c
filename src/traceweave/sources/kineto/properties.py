"""What the top level of a Kineto file says: rank, process groups, devices, base time.

The top level lies around the event array, before it in files of newer torch, partly after it in
older ones. It may be damaged or cut off; then what can still be recognized by its key is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True)
class Group:
    """One process group as `distributedInfo.pg_config` lists it."""

    name: str
    description: str | None
    ranks: list[int] | None
    size: int | None


@dataclass(frozen=True)
class Properties:
    """The top-level keys of a Kineto file that traceweave uses; None where the file has none."""

    base_ns: int = 0
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    nccl_version: str | None = None
    groups: tuple[Group, ...] = ()
    gpu_names: tuple[tuple[int, str], ...] = ()
    host: str | None = None


def parse_properties(head: bytes, tail: bytes) -> Properties:
    """Read the text before the array (opening bracket included) and after it (closing bracket
    included).
    """
    top = _top_level(head, tail)
    info = _mapping(top.get("distributedInfo"))
    base = _integer(top.get("baseTimeNanoseconds"))
    devices = top.get("deviceProperties")
    host = _text(top.get("host_name"))
    return Properties(
        base_ns=base or 0,
        rank=_integer(info.get("rank")),
        world_size=_integer(info.get("world_size")),
        backend=_text(info.get("backend")),
        nccl_version=None
        if info.get("nccl_version") == "unknown"
        else _text(info.get("nccl_version")),
        groups=_groups(info.get("pg_config")),
        gpu_names=_gpu_names(devices),
        host=None if host == "removed" else host,
    )


def _top_level(head: bytes, tail: bytes) -> dict[str, Any]:
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        return {}
    text = head.removeprefix(b"\xef\xbb\xbf") + (tail or b"]}")
    try:
        return _mapping(orjson.loads(text.decode("utf-8", "replace")))
    except orjson.JSONDecodeError:
        return _recognized_keys(text)


def _recognized_keys(text: bytes) -> dict[str, Any]:
    """Pick single values out of a damaged top level."""
    found: dict[str, Any] = {}
    if match := re.search(rb'"baseTimeNanoseconds"\s*:\s*(\d+)', text):
        found["baseTimeNanoseconds"] = int(match[1])
    if match := re.search(rb'"distributedInfo"\s*:\s*\{', text):
        info = text[match.end() : match.end() + 4096]
        numbers = {
            key.decode(): int(value)
            for key, value in re.findall(rb'"(rank|world_size)"\s*:\s*(\d+)', info)
        }
        found["distributedInfo"] = numbers
    return found


def _groups(config: object) -> tuple[Group, ...]:
    groups = []
    for entry in config if isinstance(config, list) else []:
        name = _text(_mapping(entry).get("pg_name"))
        if name is not None:
            ranks = _ranks(entry.get("ranks"))
            size = _integer(entry.get("pg_size")) or (len(ranks) if ranks else None)
            groups.append(Group(name, _text(entry.get("pg_desc")), ranks, size))
    return tuple(groups)


def _ranks(value: object) -> list[int] | None:
    if isinstance(
        value, str
    ):  # on-demand captures write the list as text, cut to 30 items with an ellipsis
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    if isinstance(value, list) and value and all(isinstance(rank, int) for rank in value):
        return sorted(value)
    return None


def _gpu_names(devices: object) -> tuple[tuple[int, str], ...]:
    named = []
    for device in devices if isinstance(devices, list) else []:
        properties = _mapping(device)
        number, name = _integer(properties.get("id")), _text(properties.get("name"))
        if number is not None and name is not None:
            named.append((number, name))
    return tuple(named)


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
