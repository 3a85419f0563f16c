"""What runs out on a machine, and is no fault of any file: memory, threads, open files."""

from __future__ import annotations

import errno
import re

from traceweave.errors import ResourceError, TraceweaveError

_ERRNOS = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE})

_SAID = re.compile(
    r"bad[_ ]alloc|out of memory|allocation failure|failed to allocate|(cannot|unable to) allocate"
    r"|can't start new thread|thread constructor failed|failed to map segment",
    re.IGNORECASE,
)

_SAYING = (RuntimeError, ImportError, OSError)
"""Built-in errors whose text may say it. Others quote what files hold, and so do all of ours."""

_ALSO_SAYING = re.compile(
    r"_?duckdb\b.*\.(OutOfMemory|Fatal|Internal|IO)Exception|_?duckdb\.Error"
    r"|_?sqlite3\.OperationalError|adbc_driver_manager\b.*"
)
"""Those of packages, by their full names: they are imported where somebody needs them."""

_IN_A_FUNCTION = re.compile(r"executing the UDF: (RuntimeError|MemoryError|OSError): ")
"""What DuckDB says of one of the built-in errors that came in a function of ours."""


def what_ran_out(error: BaseException | None) -> str | None:
    """Return in a few words what ran out, if that is why an error, or one that led to it, came;
    else None.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ResourceError):
            return error.message
        if _is_of_resources(error):
            return _in_words(error)
        error = error.__cause__ or error.__context__
    return None


def _is_of_resources(error: BaseException) -> bool:
    if isinstance(error, TraceweaveError):
        return False
    if isinstance(error, MemoryError) or getattr(error, "errno", None) in _ERRNOS:
        return True
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    if name.endswith(".OutOfMemoryException"):
        return True
    says = isinstance(error, _SAYING) or _ALSO_SAYING.fullmatch(name) is not None
    if name.endswith(".InvalidInputException"):
        says = _IN_A_FUNCTION.search(str(error)) is not None
    return says and _SAID.search(str(error)) is not None


def _in_words(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    said = re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", lines[0].strip()) if lines else ""
    return f"memory or threads ran out ({said or type(error).__name__})"
