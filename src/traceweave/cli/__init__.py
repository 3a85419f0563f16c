"""The command line: thin commands that parse, call the Python API and print."""

from traceweave.cli.main import main

__all__ = ["main"]
