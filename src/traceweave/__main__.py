"""`python -m traceweave` is the command `traceweave`, in a process of its own."""

from __future__ import annotations

import gc
import os
import sys
from importlib.abc import MetaPathFinder

from traceweave.interrupts import after_imports
from traceweave.streams import open_closed

NEW_OBJECTS = 100_000
"""After so many Python looks for cycles. Its 700 suit what runs for long: here, nearly all of them
are met while modules are imported, which stay."""


class _WithoutPandas(MetaPathFinder):
    """Finds no pandas: Arrow imports it to see whether a list is one of its, which takes as long as
    an answer. No command needs it.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse pandas; leave all else to others."""
        if name == "pandas":
            raise ModuleNotFoundError("commands do without pandas", name=name)


def run() -> int:
    """Run the command line with what suits a process that does nothing else; the exit code."""
    # before numpy is imported, whose BLAS starts a thread per core: there is little for them to do
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(NEW_OBJECTS)
    sys.meta_path.insert(0, _WithoutPandas())
    open_closed()
    with after_imports():
        from traceweave.cli import main

        code = main()
    gc.disable()  # all of it goes with the process
    return code


if __name__ == "__main__":  # Dask's workers import it under another name
    sys.exit(run())
