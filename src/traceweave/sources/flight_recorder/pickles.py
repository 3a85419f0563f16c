"""Reading a pickle that anybody may have written: plain values or nothing.

A pickle is a program. Every opcode is looked at before any is run; only those that make numbers,
texts, lists, tuples and dicts pass, so that nothing is imported, called or loaded from elsewhere.
"""

from __future__ import annotations

import io
import pickle
import pickletools

from traceweave import words
from traceweave.errors import InputError

MOST_OPCODES = 50_000_000
"""A recorder of 20,000 entries with stack traces needs a tenth of it."""
MOST_VALUES = 5_000_000
"""Values that a pickle may make, each of some 70 bytes: lists alone take one byte in the file."""

_MAKING = frozenset({
    "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "DICT", "LIST",
    "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "BINFLOAT", "BININT", "BININT1", "BININT2", "LONG1",
    "BINUNICODE", "BINUNICODE8", "SHORT_BINUNICODE", "BINSTRING", "SHORT_BINSTRING",
    "BINBYTES", "SHORT_BINBYTES",
})  # fmt: skip
_PLACING = frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE",
    "APPEND", "APPENDS", "SETITEM", "SETITEMS",
    "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "MEMOIZE",
})  # fmt: skip
_HIGHEST_MEMO = MOST_VALUES
"""Numbers of remembered values: a table as long as the highest one is made."""


class _PlainUnpickler(pickle.Unpickler):
    """Runs what `_check` let pass; refuses again what it would have to find or to call."""

    def find_class(self, module: str, name: str, /) -> object:
        raise pickle.UnpicklingError(f"asks for {module}.{name}")

    def persistent_load(self, pid: object, /) -> object:
        raise pickle.UnpicklingError("asks for a value from elsewhere")


def read_plain_pickle(data: bytes) -> object:
    """Return what a pickle of plain values holds. Raises InputError for any other one."""
    try:
        _check(data)
        return _PlainUnpickler(io.BytesIO(data)).load()
    except (InputError, MemoryError):
        raise
    except Exception as error:  # unpicklers raise anything, from EOFError to UnicodeDecodeError
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"a damaged pickle: {reason}") from error


def _check(data: bytes) -> None:
    """Raise InputError unless every opcode makes or places plain values, and not too many."""
    made = 0
    for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if opcode.name in _MAKING:
            made += 1
        elif opcode.name not in _PLACING:
            what = f" ({str(argument)[:60]!r})" if argument is not None else ""
            raise InputError(
                f"a pickle that does more than hold data: it has the opcode {opcode.name}{what},"
                " which no flight recorder writes; it was not run"
            )
        elif opcode.name.endswith("BINPUT") and int(argument or 0) > _HIGHEST_MEMO:
            raise InputError("a pickle that would take far more memory than a dump needs")
        if made > MOST_VALUES or number > MOST_OPCODES:
            raise InputError(
                f"a pickle of more than {words.count(MOST_VALUES)} values: no flight recorder's"
            )
