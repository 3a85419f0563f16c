"""Runs for language-model agents: a server of the Model Context Protocol over stdio.

What it answers is what the command line answers, with fewer rows at a time.
"""

from __future__ import annotations

import os
from pathlib import Path

from traceweave.errors import UsageError
from traceweave.interrupts import exit_code

__all__ = ["serve"]


def serve(root: Path, time_limit_s: float) -> None:
    """Answer requests on stdin until it closes, about the runs in `root` and in no other place.

    SQL that takes longer than `time_limit_s` is interrupted. Raises UsageError where the extra
    `mcp` is not installed, or `root` is no folder.
    """
    try:
        from traceweave.agents.server import build_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError("this needs the MCP SDK: pip install 'traceweave-ranks[mcp]'") from error
    server = build_server(root, time_limit_s)
    try:
        server.run()
    except KeyboardInterrupt:
        # a thread still waits for a line of stdin, and Python for it; nothing is to be cleaned up
        os._exit(exit_code())
