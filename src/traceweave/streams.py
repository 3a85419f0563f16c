"""Streams that whoever starts a command has closed, or closes meanwhile."""

from __future__ import annotations

import os
import sys


def open_closed() -> None:
    """Open those of stdin, stdout and stderr that are closed: the next file that is opened would
    take the place of one, and get what is meant for it.

    There is nothing in stdin, stdout cannot be written to, and what goes to stderr is lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            flags = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def tell(text: str) -> None:
    """Write a line to stderr, as long as somebody reads it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        # nor will Python complain about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
