"""Files of every format, and what damages them: a row of files.tsv names both.

A damage is steps, one after the other: `zero 30 4096` puts 4,096 zeros at 30 % of the file, `cut
50` leaves half of it. What is random is so by the name of the attack, each time alike."""

import gzip
import json
import pickle
import random
import re
import shlex
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from tests.flight_dumps import dump, entry
from tests.nccl_lines import Writer

FIXTURES = Path(__file__).parents[1] / "fixtures"
RANK = 1
EVENTS = 300


def damaged(base: str, steps: str, seed: str) -> bytes:
    """Return a file of a kind, after what was done to it."""
    data, chance = BASES[base](), random.Random(seed)
    for step in filter(None, steps.split(" | ")):
        name, *arguments = shlex.split(step)
        data = DAMAGES[name](data, chance, *arguments)
    return data


def trace(rank: int, first: int = 0) -> dict[str, Any]:
    """Return a small part of a real trace, as one of a rank among six."""
    document = dict(_recorded())
    document["traceEvents"] = document["traceEvents"][first : first + EVENTS]
    document["distributedInfo"] = {"backend": "gloo", "rank": rank, "world_size": 6}
    return document


@cache
def _recorded() -> dict[str, Any]:
    packed = (FIXTURES / "ddp_gloo_4ranks" / "rank1.json.gz").read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(packed))
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    return document | {"traceEvents": sorted(spans, key=lambda event: event["ts"])}


def _lines() -> bytes:
    return json.dumps(trace(RANK), indent=2).encode()


def _one_line() -> bytes:
    return json.dumps(trace(RANK), separators=(",", ":")).encode()


def _entries() -> list[dict[str, Any]]:
    return [entry(record_id=i, collective_seq_id=i, op_id=i) for i in range(40)]


def _log() -> bytes:
    writer = Writer(77)
    lines = [writer.says("NCCL version 2.27.7+cuda12.6"), writer.made("0x5", 1, 6)]
    for i in range(60):
        lines += [writer.called("AllReduce", 1024 + i, "0x5", 6), writer.chose("AllReduce", 4096)]
    return "".join(lines).encode()


BASES: dict[str, Callable[[], bytes]] = {
    "kineto lines": _lines,
    "kineto one line": _one_line,
    "kineto gz": lambda: gzip.compress(_lines(), 6, mtime=0),
    "nsys": (FIXTURES / "ddp_gloo_nsys" / "ddp_4ranks.sqlite").read_bytes,
    "dump pickle": lambda: pickle.dumps(dump(*_entries()), 2),
    "dump json": lambda: json.dumps(dump(*_entries())).encode(),
    "nccl log": _log,
}
NAMES = {
    "kineto lines": "rank1.json", "kineto one line": "rank1.json", "kineto gz": "rank1.json.gz",
    "nsys": "rank1.sqlite", "dump pickle": "dump_rank1", "dump json": "dump_rank1.json",
    "nccl log": "nccl.rank1.log",
}  # fmt: skip

Damage = Callable[..., bytes]


def _at(data: bytes, percent: str) -> int:
    return int(len(data) * float(percent) / 100)


def _put(data: bytes, percent: str, new: bytes) -> bytes:
    at = _at(data, percent)
    return data[:at] + new + data[at + len(new) :]


def _replace(data: bytes, _: random.Random, old: str, new: str, times: str = "1") -> bytes:
    """Replace what a regular expression finds, from the 20th match on, or the first of fewer."""
    first = 20 if len(re.findall(old.encode(), data)) > 20 + int(times) else 0
    last = first + int(times)
    matches = iter(range(1 << 30))
    raw = new.encode().decode("unicode_escape").encode("latin-1")
    found = re.sub(
        old.encode(), lambda m: m.expand(raw) if first <= next(matches) < last else m[0], data
    )
    assert found != data, old
    return found


def _drop(data: bytes, _: random.Random, percent: str, count: str) -> bytes:
    at = _at(data, percent)
    return data[:at] + data[at + int(count) :]


def _swap(data: bytes, _: random.Random, size: str) -> bytes:
    """Exchange two blocks, as a network file system may."""
    n, a, b = int(size), len(data) // 4, len(data) // 2
    return data[:a] + data[b : b + n] + data[a + n : b] + data[a : a + n] + data[b + n :]


def _flip(data: bytes, chance: random.Random, count: str) -> bytes:
    """Change single bits."""
    found = bytearray(data)
    for _ in range(int(count)):
        found[chance.randrange(len(data) // 10, len(data) * 9 // 10)] ^= 1 << chance.randrange(8)
    return bytes(found)


def _sql(data: bytes, _: random.Random, *statements: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.sqlite"
        path.write_bytes(data)
        with closing(sqlite3.connect(path)) as con:
            con.executescript(";".join(statements))
        return path.read_bytes()


DAMAGES: dict[str, Damage] = {
    "cut": lambda data, _, percent: data[: _at(data, percent)],
    "keep": lambda data, _, count: data[: int(count)],
    "zero": lambda data, _, percent, size: _put(data, percent, bytes(int(size))),
    "page": lambda data, _, number: (
        data[: int(number) * 4096] + bytes(4096) + data[int(number) * 4096 + 4096 :]
    ),
    "zeros_to_the_end": lambda data, _, percent: _put(
        data, percent, bytes(len(data) - _at(data, percent))
    ),
    "noise": lambda data, chance, percent, size: _put(data, percent, chance.randbytes(int(size))),
    "flip": _flip,
    "drop": _drop,
    "again": lambda data, _, percent, size: (
        data[: _at(data, percent) + int(size)] + data[_at(data, percent) :]
    ),
    "swap": _swap,
    "before": lambda data, _, text: text.encode().decode("unicode_escape").encode("latin-1") + data,
    "after": lambda data, _, text: data + text.encode().decode("unicode_escape").encode("latin-1"),
    "twice": lambda data, _: data + data,
    "replace": _replace,
    "utf16": lambda data, _: data.decode().encode("utf-16"),
    "crlf": lambda data, _: data.replace(b"\n", b"\r\n"),
    "pack": lambda data, _: gzip.compress(data, 6, mtime=0),
    "unpack": lambda data, _: gzip.decompress(data),
    "events_as_lines": lambda data, _: b"\n".join(
        json.dumps(event).encode() for event in json.loads(data)["traceEvents"]
    ),
    "sql": _sql,
}
