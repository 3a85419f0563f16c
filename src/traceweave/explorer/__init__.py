"""A local page on which a whole run can be looked at: every rank and step, down to nanoseconds.

`views` and what it stands on answer from a connection; `app` and `server` put that behind HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from traceweave.errors import UsageError

if TYPE_CHECKING:
    from traceweave.explorer.opening import Opening

__all__ = ["serve"]


def serve(
    path: Path,
    port: int,
    open_browser: bool,
    say: Callable[[str], None],
    read: Callable[[Opening], None] | None = None,
) -> None:
    """Serve a run to the browser of this machine until Ctrl-C; `say` is told the address.

    `read` makes the run first, while the page says how far that is. Raises what it does, UsageError
    where the extra `serve` is not installed or the port is taken, DatabaseError.
    """
    try:
        from traceweave.explorer.server import serve_run, serve_while_reading
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in (
            "starlette",
            "uvicorn",
            "anyio",
        ):
            raise
        raise UsageError(
            "this needs a web server: pip install 'traceweave-ranks[serve]'"
        ) from error
    if read is None:
        serve_run(path, port, open_browser, say)
    else:
        serve_while_reading(path, port, open_browser, say, read)
