"""Names in a table: short enough for their column, and different where the names are.

What tells kernels apart is often far behind the beginning of names that have thousands of
characters: the functor among the template arguments of `elementwise_kernel`. So what is not needed
goes first, then what all names have alike; where two names part stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from traceweave.vocabulary.spelling import demangled

ELLIPSIS = "…"
LEAST_PIECE = 8
"""Characters that are shown from where two names part, if there is room."""

_LONGEST = 4096
"""Characters of a name that are compared."""

_MARKS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|(?<=[<, ])\((?:int|bool)\)(?=\d)")
_NAMESPACES = re.compile(r"(?<![\w>])(?:[A-Za-z_]\w*::)+(?=[\w~])")
_SUFFIX = re.compile(r"(?:\s*\[clone [^\[\]]*\]|\.kd)+$")
_OF_TYPES = re.compile(
    r"^\(\)$|[*&<>]|::|\b(?:void|bool|char|int|long|float|double|unsigned|T\d+)\b|__"
)
_PIECE_BEGINS = re.compile(r"[A-Za-z0-9]+$")


def readable(names: Iterable[str]) -> dict[str, str]:
    """Return what people read of each name: demangled, without the types of its parameters.

    Names that would then be alike stay as they are.
    """
    return _told_apart(dict.fromkeys(names), _readable)


def without_namespaces(name: str) -> str:
    """Return a name without what says least where there is no room."""
    return _NAMESPACES.sub("", name)


def fitted(names: Sequence[str], width: int) -> dict[str, str]:
    """Return each name in at most `width` characters; no two are alike.

    Namespaces are left out of a name that is too long, then what stands between its beginning and
    where it parts from others.
    """
    shown = _told_apart(
        dict.fromkeys(names),
        lambda name: without_namespaces(name) if len(name) > width else name,
    )
    long = [text for text in shown.values() if len(text) > width]
    if not long:
        return shown
    parts = _partings([text[:_LONGEST] for text in shown.values()])
    for pieces in (slice(None), slice(-2, None), slice(-1, None)):
        cut = {text: _cut(text, parts[text[:_LONGEST]][pieces], width) for text in long}
        results = {name: cut.get(text, text) for name, text in shown.items()}
        if len(set(results.values())) == len(results):
            return results
    return _numbered(results, width)


def _readable(name: str) -> str:
    text = demangled(name) if name.startswith("_Z") else name
    text = _MARKS.sub("", _SUFFIX.sub("", text)).removeprefix("void ")
    begin = _parameters(text)
    return text[:begin] if begin and _OF_TYPES.search(text[begin:]) else text


def _parameters(text: str) -> int:
    """Return where the parentheses begin that a name ends with; 0 if it is not called by them."""
    depth = 0
    for place in range(len(text) - 1 if text.endswith(")") else -1, 0, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth == 0:
            return place if text[place - 1] in "_>" or text[place - 1].isalnum() else 0
    return 0


def _told_apart(names: Iterable[str], shorten: Callable[[str], str]) -> dict[str, str]:
    """Shorten each name, but for those that would then be alike."""
    short = {name: shorten(name) for name in names}
    found = Counter(short.values())
    return {name: text if found[text] == 1 else name for name, text in short.items()}


def _partings(texts: Iterable[str]) -> dict[str, list[int]]:
    """Return the places at which each text parts from another one, ascending."""
    ordered = sorted(set(texts))
    alike = [_alike(one, other) for one, other in pairwise(ordered)]
    found: dict[str, list[int]] = {}
    for place, text in enumerate(ordered):
        depths: set[int] = set()
        for lengths in (reversed(alike[:place]), alike[place:]):
            least = len(text)
            for length in lengths:
                if length < least:
                    least = length
                    depths.add(least)
                if not least:
                    break
        found[text] = sorted(depths)
    return found


def _alike(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    most = min(len(one), len(other))
    return next((n for n in range(most) if one[n] != other[n]), most)


def _cut(text: str, partings: Sequence[int], width: int) -> str:
    """Cut a text: its beginning, and what follows the places at which it parts from others."""
    starts = [_beginning(text, at) for at in partings]
    begin = text[: width - 1]
    if all(start + LEAST_PIECE < len(begin) for start in starts):
        return begin + ELLIPSIS
    head = max(min(len(text.partition("<")[0]) + 1, width // 2), 1)
    for piece in range(width, 0, -1):
        spans = [(0, head), *((at, at + piece) for at in starts)]
        if len(found := _pieces(text, spans)) <= width:
            break
        if piece == LEAST_PIECE:
            head = max(width // 4, 1)
    else:
        return begin + ELLIPSIS
    while head < width and len(more := _pieces(text, [(0, head + 1), *spans[1:]])) <= width:
        head, found = head + 1, more
    return found


def _beginning(text: str, place: int) -> int:
    """Return where the word or number begins that a place is in."""
    word = _PIECE_BEGINS.search(text, 0, place)
    return word.start() if word else place


def _pieces(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Write the spans of a text with an ellipsis for what lies between them."""
    parts: list[str] = []
    at = 0
    for begin, end in sorted(spans):
        begin, end = max(begin, at), min(end, len(text))
        if begin > at + 1:
            parts.append(ELLIPSIS)
        elif begin > at:
            parts.append(text[at:begin])
        if end > begin:
            parts.append(text[begin:end])
        at = max(at, end, begin)
    return "".join([*parts, ELLIPSIS if at < len(text) else ""])


def _numbered(results: Mapping[str, str], width: int) -> dict[str, str]:
    """Number texts that are alike: '…~2' is another name than '…~1'."""
    times = Counter(results.values())
    taken = {text for text, often in times.items() if often == 1}
    numbers: dict[str, int] = {}
    found = {}
    for name, text in results.items():
        shown, number = text, numbers.get(text, 0)
        while times[text] > 1 and (shown == text or shown in taken):
            number += 1
            mark = f"~{number}"
            shown = text[: max(width - len(mark), 0)] + mark
        numbers[text] = number
        taken.add(shown)
        found[name] = shown
    return found
