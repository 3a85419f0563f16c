"""Mending events that are not JSON, as old and unlucky profilers write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson

from traceweave.sources.kineto.cut import split, split_at_boundaries, split_at_depth
from traceweave.sources.kineto.stream import EXAMPLE_BYTES

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_NO_NUMBER = re.compile(
    _STRING + rb"|(?<=[:\[,\s])-?(?:nan(?:\([a-z]*\))?|inf(?:inity)?|1\.\#[a-z]+\d*)(?=\s*[,\]}])",
    re.IGNORECASE | re.DOTALL,
)
"""NaN and infinity as C, C++, Python and Microsoft's C library print them."""

_QUOTE = re.compile(rb'\\.|[\[{,:]\s*"|"(?=\s*[,:}\]])|(")', re.DOTALL)
"""Group 1: a quote that neither begins nor ends a string, judging by what is around it."""

_SURROGATES = re.compile(
    rb"(\\\\)|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_BACKSLASH = re.compile(rb'(\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})|\\')
"""One that begins no escape is not in group 1."""

_MENDERS: tuple[Callable[[bytes], bytes], ...] = (
    lambda event: event,
    lambda event: event.decode("utf-8", "replace").encode(),
    lambda event: _BACKSLASH.sub(lambda m: m[1] or rb"\\", event),
    lambda event: _NO_NUMBER.sub(lambda m: m[0] if m[0].startswith(b'"') else b"null", event),
    lambda event: re.sub(rb"[\x00-\x1f]", b" ", event),
    lambda event: _SURROGATES.sub(lambda m: m[1] or m[2] or rb"\ufffd", event),
    lambda event: _QUOTE.sub(lambda m: rb"\"" if m[1] else m[0], event),
)
"""In the order of what `repair_event` says it mends, each tried on what the last one made."""


@dataclass
class Unparsed:
    """What could not be read as an event: how many, and how the first began."""

    count: int = 0
    example: str | None = None

    def add(self, text: bytes) -> None:
        """Count one stretch of text."""
        self.count += 1
        if self.example is None:
            self.example = text[:EXAMPLE_BYTES].decode("utf-8", "replace")


def repair_block(block: bytes, unparsed: Unparsed) -> bytes:
    """Return the events of a block that parse, alone or after repair; count the others."""
    try:
        if all(type(event) is dict for event in orjson.loads(b"[" + block + b"]")):
            return block
    except orjson.JSONDecodeError:
        pass
    return b",".join(_events(block, unparsed))


def rewrite_block(block: bytes) -> bytes:
    """Return valid events written anew, so that no key occurs twice; the last one counts.

    Integers beyond 64 bits become doubles on the way.
    """
    return orjson.dumps(orjson.loads(b"[" + block + b"]"))[1:-1]


def repair_event(event: bytes) -> bytes | None:
    """Return the event as valid JSON, mending what profilers got wrong; None if beyond repair.

    Mended: invalid UTF-8, lone backslashes (Windows paths in names), NaN and Infinity, raw control
    characters, half surrogate pairs, quotes inside strings.
    """
    for mend in _MENDERS:
        event = mend(event)
        try:
            parsed = orjson.loads(event)
        except orjson.JSONDecodeError:
            continue
        return event if isinstance(parsed, dict) else None
    return None


def _events(block: bytes, unparsed: Unparsed) -> Iterator[bytes]:
    for piece in split(block):
        if (event := repair_event(piece)) is not None:
            yield event
            continue
        for part in split_at_boundaries(piece):
            for text in split_at_depth(part):
                yield from _from_part(text, unparsed)


def _from_part(part: bytes, unparsed: Unparsed) -> Iterator[bytes]:
    """Yield the event that this text is, or those among values that are no events."""
    if (event := repair_event(part)) is not None:
        yield event
        return
    try:
        values = orjson.loads(b"[" + part + b"]")
    except orjson.JSONDecodeError:
        unparsed.add(part)
        return
    for value in values:
        text = orjson.dumps(value)
        if isinstance(value, dict):
            yield text
        else:
            unparsed.add(text)
