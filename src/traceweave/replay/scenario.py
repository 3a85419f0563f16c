"""The grammar of scenarios: which part of the work, and what changes about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from sys import float_info
from typing import Any

from traceweave.errors import UsageError, suggest
from traceweave.replay.nodes import HOLDS, KINDS

OWN_STREAM = "stream=own"
"""The change that has the key of a selector."""

LIKES = ("median", "fastest", "mean")

EXAMPLE = "such as 'rank=3 kind=compute like=median' or 'kind=data_loading times=0'"


@dataclass(frozen=True)
class Scenario:
    """Some of the work of a run, and one change to it. None: whichever."""

    text: str
    """As it was written."""
    ranks: frozenset[int] | None = None
    steps: frozenset[int] | None = None
    kinds: frozenset[str] = frozenset()
    """Not empty."""
    class_: str | None = None
    op: str | None = None
    groups: frozenset[int] | None = None
    name: str | None = None
    module: str | None = None
    bytes: tuple[float, float] | None = None
    """From, to (included)."""
    streams: frozenset[int] | None = None
    """As gpu_ops numbers them."""
    idle: bool = False
    """Only such time in which nothing ran on the GPU of the rank."""
    times: float | None = None
    like: str | None = None
    gbps: float | None = None
    alpha_us: float | None = None
    bucket_mb: float | None = None
    prefetch: int | None = None
    overlap: bool = False
    alone: bool = False
    """Collectives are gone: nobody waits in them, and nothing is transferred."""
    uncontended: bool = False
    """Kernels take as long as they do with nothing beside them, where that is known."""
    own_stream: bool = False
    """Collectives have a stream without compute."""

    @property
    def names_something(self) -> bool:
        """Whether it is about more than kinds, ranks and steps."""
        named = (self.class_, self.op, self.groups, self.name, self.module, self.bytes)
        return any(one is not None for one in (*named, self.streams))

    @property
    def moves(self) -> bool:
        """Whether collectives are where others were, rather than of another length."""
        placed = self.overlap or self.own_stream
        return placed or self.prefetch is not None or self.bucket_mb is not None


def parse(text: str, comm_ops: Iterable[str] = ()) -> tuple[Scenario, ...]:
    """Return what a text asks for: one scenario, or several at once divided by semicolons.

    `comm_ops` are the run's collective operations: `op` is one of these or an operator. Raises
    UsageError for what makes no sense.
    """
    parts = [part for part in (part.strip() for part in text.split(";")) if part]
    if not parts:
        raise UsageError(f"a scenario is empty; write KEY=VALUE pairs, {EXAMPLE}")
    return tuple(_parse(part, frozenset(comm_ops)) for part in parts)


def selection(text: str, comm_ops: Iterable[str]) -> Scenario:
    """Return which operations of the device a text means, that changes nothing about them.

    Raises UsageError for what makes no sense.
    """
    given = _pairs(text)
    if wrong := [key for key in given if key in (*_CHANGES, "while")]:
        raise UsageError(f"selection {text!r} has {_shown(wrong[0])}, which is for scenarios")
    # any change will do
    scenario = _parse(f"{text} times=1", frozenset(comm_ops))
    kinds = scenario.kinds if "kind" in given else scenario.kinds & _ON_DEVICE
    if kinds - _ON_DEVICE:
        listed = ", ".join(sorted(_ON_DEVICE))
        raise UsageError(f"selection {text!r}: kind is one of {listed}")
    return replace(scenario, text=text, kinds=kinds)


def _parse(text: str, comm_ops: frozenset[str]) -> Scenario:
    given = _pairs(text)
    changes = [key for key in _CHANGES if key in given]
    if not changes:
        listed = ", ".join(map(_shown, _CHANGES))
        raise UsageError(f"scenario {text!r} changes nothing: give one of {listed} {EXAMPLE}")
    if len(changes) > 1 and set(changes) != {"gbps", "alpha_us"}:
        raise UsageError(
            f"scenario {text!r} has more than one change: {', '.join(changes)}; divide it in two,"
            " with a semicolon between them"
        )
    values = {}
    for key in (key for key in given if key != "kind"):
        field, read, what = _KEYS[key]
        try:
            values[field] = read(given[key])
        except ValueError as error:
            raise UsageError(f"scenario {text!r}: {key} is {what}") from error
    scenario = Scenario(text, kinds=_kinds(text, given, comm_ops), **values)
    if wrong := _contradiction(scenario, changes):
        raise UsageError(f"scenario {text!r}: {wrong}")
    return scenario


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    # a value goes on until the next key: names of kernels and modules have blanks
    words = re.split(r"\s+(?=[a-z_]+=)", text)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value.strip():
            raise UsageError(f"{word!r} in scenario {text!r} is not KEY=VALUE; write it {EXAMPLE}")
        known = [one for one in _KEYS if one != OWN_STREAM]
        if key not in known:
            hint = suggest(key, known) or f"; there are: {', '.join(known)}"
            raise UsageError(f"scenario {text!r} has an unknown key {key!r}{hint}")
        if word.strip() == OWN_STREAM:
            key = OWN_STREAM
        if key in found:
            raise UsageError(f"scenario {text!r} has {key} twice")
        found[key] = value.strip()
    return found


def _shown(key: str) -> str:
    return key if key == OWN_STREAM else f"{key}="


def _kinds(text: str, given: dict[str, str], comm_ops: frozenset[str]) -> frozenset[str]:
    if "kind" in given:
        kinds = frozenset(given["kind"].split(","))
        for kind in kinds - set(KINDS):
            hint = suggest(kind, KINDS) or f"; there are: {', '.join(KINDS)}"
            raise UsageError(f"scenario {text!r} has an unknown kind {kind!r}{hint}")
        return kinds
    if {*_OF_TRANSFER, "group", "bytes"} & given.keys():
        return frozenset({"transfer"})
    if "op" in given:
        return frozenset({"transfer" if given["op"] in comm_ops else "compute"})
    if "while" in given:
        return _WHILE_IDLE
    if {"class", "name", "stream"} & given.keys() and "contention" not in given:
        # those of collectives and copies too
        return _ON_DEVICE
    if {"module", "contention"} & given.keys():
        return frozenset({"compute"})
    return frozenset(KINDS) - {"sync"} if "like" not in given else _COMPARABLE


_OF_TRANSFER = ("gbps", "alpha_us", "bucket_mb", "prefetch", "overlap", "wait", OWN_STREAM)
"""Changes that only collectives have."""

_ON_DEVICE = frozenset({"compute", "transfer", "copy"})

_COMPARABLE = frozenset({"compute", "launch", "copy", *HOLDS})
"""Kinds that are a rank's own doing, and so can be like those of others."""

_WHILE_IDLE = frozenset({"launch", *HOLDS})
"""Time of the host."""


def _contradiction(s: Scenario, changes: list[str]) -> str | None:
    """Return why a change is none of such work."""
    if s.kinds != {"transfer"} and any(change in _OF_TRANSFER for change in changes):
        return f"{', '.join(_OF_TRANSFER[:-1])} and {OWN_STREAM} are for kind=transfer"
    if s.uncontended and s.kinds != {"compute"}:
        return "contention=none is for kind=compute"
    if "sync" in s.kinds and s.times != 0:
        return "a sync can only be removed, with times=0; its length is that of what it waits for"
    if s.idle and (s.times is None or s.kinds - _WHILE_IDLE):
        listed = ", ".join(kind for kind in KINDS if kind in _WHILE_IDLE)
        return f"while=idle is for times= of the kinds {listed}"
    if s.like is not None and (wrong := s.kinds - _COMPARABLE - {"transfer"}):
        return f"{', '.join(sorted(wrong))} has nothing to be like; use times="
    return None


def _numbers(value: str) -> frozenset[int]:
    found: set[int] = set()
    for part in value.split(","):
        if not (match := re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())):
            raise ValueError
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def _range(value: str) -> tuple[float, float]:
    low, dash, high = value.partition("-")
    return float(low or 0), float(high or "inf") if dash else float(low)


def _where(fits: Callable[[Any], bool], read: Callable[[str], Any] = float) -> Callable[[str], Any]:
    """Return what reads a value, and refuses what does not fit."""

    def checked(value: str) -> Any:
        if not fits(found := read(value)):
            raise ValueError
        return found

    return checked


def _whole(least: int) -> Callable[[str], int]:
    return _where(lambda n: n >= least, lambda value: int(value) if value.isdecimal() else -1)


def _one_of(*words: str) -> Callable[[str], str]:
    return _where(words.__contains__, str)


def _only(word: str) -> Callable[[str], bool]:
    return _where(bool, word.__eq__)


_ABOVE_0 = _where(lambda x: x >= float_info.min)

_KEYS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "rank": ("ranks", _numbers, "numbers like 3 or 0,3-5"),
    "step": ("steps", _numbers, "numbers like 3 or 0,3-5"),
    "kind": ("kinds", str, ""),
    "while": ("idle", _only("idle"), "idle, or not there"),
    "class": ("class_", str, ""),
    "op": ("op", str, ""),
    "group": ("groups", _numbers, "numbers like 3 or 0,3-5; the relation groups has them"),
    "name": ("name", str, ""),
    "module": ("module", str, ""),
    "bytes": ("bytes", _range, "a range like 1e6-2e6, or 1e6-"),
    "stream": ("streams", _numbers, "numbers like 3 or 0,3-5"),
    "times": ("times", _where(lambda x: 0 <= x <= 1000), "a number from 0 to 1000"),
    "like": ("like", _one_of(*LIKES), f"one of {', '.join(LIKES)}"),
    "gbps": ("gbps", _ABOVE_0, "a number above 0"),
    "alpha_us": ("alpha_us", _where(lambda x: x >= 0), "a number, 0 or more"),
    "bucket_mb": ("bucket_mb", _ABOVE_0, "a number above 0"),
    "prefetch": ("prefetch", _whole(1), "a number of units, 1 or more"),
    "overlap": ("overlap", _only("full"), "full, or not there"),
    "wait": ("alone", _only("none"), "none, or not there"),
    "contention": ("uncontended", _only("none"), "none, or not there"),
    OWN_STREAM: ("own_stream", bool, ""),
}
"""By key: the field of a scenario, what reads its value, and what that has to be. First those that
select, then those that change."""

_CHANGES = tuple(_KEYS)[list(_KEYS).index("times") :]
