"""traceweave mcp: runs for agents, over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path

import click

from traceweave.cli.options import example


@click.command(
    short_help="Let a language-model agent ask about runs (MCP over stdio).",
    epilog=example(
        "traceweave mcp --root runs/",
    ),
)
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder that holds the runs; nothing outside of it can be asked about.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    default=120,
    show_default=True,
    help="Seconds after which a question's SQL is interrupted.",
)
def mcp(root: Path, time_limit: float) -> None:
    """Serve the runs in a folder to an agent, on stdin and stdout.

    The tools are list_runs, open_run, health, findings, compare, list_analyses, describe, analyze,
    query and what_if. All of them only read. It needs pip install 'traceweave-ranks[mcp]'.
    """
    from traceweave.agents import serve

    serve(root, time_limit)
