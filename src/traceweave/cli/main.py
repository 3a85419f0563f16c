"""The command group, and the only place where an error becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

import click

from traceweave import interrupts
from traceweave._version import __version__
from traceweave.cli.align import align
from traceweave.cli.analyze import analyze
from traceweave.cli.cells import printable
from traceweave.cli.check import check
from traceweave.cli.compare import compare
from traceweave.cli.demo import demo
from traceweave.cli.encoding import write_whatever_comes
from traceweave.cli.export import export
from traceweave.cli.info import info
from traceweave.cli.ingest import ingest
from traceweave.cli.inputs import knowing_inputs
from traceweave.cli.mcp import mcp
from traceweave.cli.names import analysis_names, unknown_command
from traceweave.cli.options import Command
from traceweave.cli.query import query
from traceweave.cli.record import record
from traceweave.cli.report import report
from traceweave.cli.schema import schema
from traceweave.cli.serve import serve
from traceweave.cli.sql import sql
from traceweave.cli.version import version
from traceweave.cli.what_if import what_if
from traceweave.errors import MOST_MESSAGE, TraceweaveError, shortened
from traceweave.interrupts import was_interrupted
from traceweave.locations import OWN_ANALYSES, without_secrets
from traceweave.resources import what_ran_out
from traceweave.streams import tell

OK, CHECK_FAILED, WRONG_USE, BAD_INPUT = 0, 1, 2, 3
"""Exit codes. A command that ends with another than OK calls `context.exit(code)`."""


_COMPLETE = "_TRACEWEAVE_COMPLETE"
"""What a shell sets to have a line completed, as click's own entry point takes it."""


class _Group(click.Group):
    """Lists the commands in the order of work, and guesses what an unknown one means.

    The name of an analysis is short for `analyze` with it.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            if args[0] not in analysis_names():
                raise unknown_command(args, self.commands)
            args = ["analyze", *args]
        return super().resolve_command(ctx, args)


EPILOG = """\b
Example:
  traceweave ingest traces/ -o run.duckdb
  traceweave analyze breakdown run.duckdb
  traceweave report run.duckdb -o run.html

\b
Exit codes: 0 success, 1 a check failed, 2 usage error, 3 input bad or only partly loaded."""


@click.group(
    cls=_Group,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.option(
    "--analyses",
    type=click.Path(exists=True, file_okay=False),
    envvar=OWN_ANALYSES,
    is_eager=True,
    expose_value=False,
    callback=lambda _, __, folder: os.environ.update({OWN_ANALYSES: folder} if folder else {}),
    help=f"A folder of .sql files: analyses and rules of yours. {OWN_ANALYSES} names it, too.",
)
@click.version_option(__version__, message="traceweave %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Weave the profiler traces of every rank into one DuckDB database on one clock, and query it.

    Reads PyTorch Profiler (Kineto) traces and Nsight Systems exports.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


COMMANDS: tuple[Command, ...] = (
    record, ingest, info, analyze, query, what_if, report, serve, compare, check, export, schema,
    sql, align, mcp, demo, version,
)  # fmt: skip
for command in COMMANDS:
    cli.add_command(knowing_inputs(command))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; errors go to stderr."""
    try:
        for stream in (sys.stdout, sys.stderr):
            write_whatever_comes(stream)
        if how := os.environ.get(_COMPLETE):
            from click.shell_completion import shell_complete

            return shell_complete(cli, {}, "traceweave", _COMPLETE, how)
        # not cli.main(): it would turn a closed pipe into exit code 1, "a check failed"
        given = list(sys.argv[1:] if arguments is None else arguments)
        with cli.make_context("traceweave", given) as context:
            cli.invoke(context)
        sys.stdout.flush()
        return OK
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        _complain(_usage_message(error))
        return WRONG_USE
    except TraceweaveError as error:
        if was_interrupted(error):
            return _say_interrupted()
        _complain(error.message, error.choices)
        return error.exit_code
    except BrokenPipeError:
        _give_up_stdout()  # the reader has seen enough
        return OK
    except OSError as error:
        _give_up_stdout()
        _complain(f"{error.filename or 'the output'}: {error.strerror or error}")
        return BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
        return _say_interrupted()
    except Exception as error:
        if (ran_out := what_ran_out(error)) is not None:
            _complain(f"{ran_out}; raise the limit of this process, or ask for less at a time")
            return BAD_INPUT
        if was_interrupted(error):
            return _say_interrupted()
        if not _is_of_database(error):
            raise
        _complain(f"the database cannot be read: {_first_line(error)}; ingest the traces again")
        return BAD_INPUT


def _give_up_stdout() -> None:
    """Keep Python from complaining about stdout when it flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_of_database(error: Exception) -> bool:
    """Tell what DuckDB raises where a file is damaged; asked only if something is raised."""
    import duckdb

    return isinstance(error, duckdb.Error)


def _say_interrupted() -> int:
    interrupts.done()
    _complain("interrupted")
    return interrupts.exit_code()


def _first_line(error: BaseException) -> str:
    from traceweave.store.database import first_line

    return first_line(error)


def _usage_message(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else "traceweave"
    if isinstance(error, click.NoSuchOption) and path == "traceweave analyze":
        return (
            f"no option {error.option_name}: rows are chosen in SQL, traceweave query run.duckdb"
            " 'FROM gaps() WHERE rank = 0', --rows is the most of them, and parameters are given"
            " with -p; see 'traceweave analyze --help'"
        )
    return f"{message}; see '{path} --help'"


def _complain(message: str, choices: Iterable[str] = ()) -> None:
    lines = [f"traceweave: error: {shortened(without_secrets(message), MOST_MESSAGE)}", *choices]
    tell("\n  ".join(printable(" ".join(line.split())) for line in lines))
