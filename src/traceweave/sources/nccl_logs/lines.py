"""From the lines of a log to its messages, each with the process that wrote it.

Processes that share a file cut into each other's lines, and what else goes to the same output does
too: a message begins wherever NCCL's header does, and ends with the line or the next header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST_LINE = 1 << 20
"""Lines beyond are cut where a word ends; NCCL's own have a kilobyte."""

_LONGEST_HEADER = 400

HEADER = re.compile(rb"([^\s:\]]{1,255}):(\d{1,10}):(\d{1,10}) \[(\d{1,4})\] NCCL INFO ")
_AT_START = re.compile(rb"(?:[^\n]{0,80}?\][:\s]\s*)?" + HEADER.pattern)
"""A header that nothing but a time or a launcher's mark in brackets comes before: `[time] `,
`[rank0]: `.
"""
_INFO = b"] NCCL INFO "
_KEPT_WHOLE = (b"Bytes ->", b"- Init ")
"""Words with a space in them by which messages are counted."""


class Header(NamedTuple):
    """Who wrote a message."""

    host: str
    pid: int
    tid: int
    is_whole: bool
    """Whether nothing is written before it that `host` may have run together with."""


class Message(NamedTuple):
    """What follows a header; without one (None) it is the rest of a line that was cut."""

    header: Header | None
    text: bytes


def word_end(text: bytes) -> int:
    """Return where a line that is too long can be cut: before its last header, if there is one, and
    never inside the words by which messages are counted.
    """
    info = text.rfind(_INFO)
    if info > _LONGEST_HEADER:
        return max(text.rfind(b" ", 0, text.rfind(b":", 0, info)), 1)
    cut = max(text.rfind(b" ", 0, LONGEST_LINE), 0) or len(text)
    for words in _KEPT_WHOLE:
        at = text.find(words, max(cut - len(words), 0), cut + len(words))
        if at > 0:
            cut = min(cut, at)
    return cut


def messages(line: bytes) -> Iterator[Message]:
    """Yield the messages of a line, in order; what stands before the first header too."""
    first = _AT_START.match(line)
    if first is not None and line.find(_INFO, first.end()) < 0:  # almost always
        yield Message(_header(first, True), line[first.end() :])
        return
    end, header = 0, None
    info = line.find(_INFO)
    while info >= 0:
        after = info + len(_INFO)
        begin = max(end, info - _LONGEST_HEADER)
        found = HEADER.search(line, begin, after)
        if found is not None and found.end() == after:  # no two can end there
            if header is not None or found.start() > end:
                yield Message(header, line[end : found.start()])
            is_whole = first is not None and first.end() == found.end()
            header, end = _header(found, is_whole), found.end()
        info = line.find(_INFO, after)
    yield Message(header, line[end:])


def _header(match: re.Match[bytes], is_whole: bool) -> Header:
    host, pid, tid = match.group(1, 2, 3)
    return Header(host.decode("utf-8", "replace"), int(pid), int(tid), is_whole)
