"""Text on a terminal, or into a pipe, whose encoding lacks some of its characters."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

_IN_ASCII = {"─": "-", "…": "~"}
"""What stands for the characters that tables are drawn with: as wide as they are."""

_HANDLER = "traceweave"


def write_whatever_comes(stream: TextIO) -> None:
    """Let `stream` write characters that it cannot encode: as \\uXXXX, which is also their JSON."""
    if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
        codecs.register_error(_HANDLER, _replaced)
        stream.reconfigure(errors=_HANDLER)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(one) or _escaped(one) for one in text), error.end


def _escaped(character: str) -> str:
    code = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[start : start + 4]}" for start in range(0, len(code), 4))
