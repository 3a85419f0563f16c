"""traceweave check: limits for CI."""

from __future__ import annotations

from pathlib import Path

import click

from traceweave.cli.options import DATABASE, example, printing_rows

CROSSED = 1
"""Exit code when a limit is crossed."""


@click.command(
    short_help="Check numbers of a run against limits, for CI.",
    epilog=example(
        "traceweave check run.duckdb --rules rules.toml",
        "traceweave check run.duckdb --rules rules.toml --baseline base.duckdb --junit check.xml",
    ),
)
@DATABASE
@click.option(
    "--rules",
    type=click.Path(path_type=Path),
    required=True,
    help="TOML file with one [[rule]] per number; docs/compare-and-check.md has the format.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Run that rules with max_increase or max_decrease compare with.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the outcomes as JUnit XML.",
)
@printing_rows
@click.pass_context
def check(
    context: click.Context,
    database: Path,
    rules: Path,
    baseline: Path | None,
    junit: Path | None,
    format_: str,
    output: Path | None,
    most_rows: int,
) -> None:
    """Check the run in DATABASE against the limits in a rules file.

    Exit code 1 if a limit is crossed or a number is unknown, 2 if the rules file is wrong.
    """
    from traceweave.checks import read_rules, write_junit
    from traceweave.cli.output import note, print_rows

    read_rules(rules)  # what is wrong with them is said before what asks the run is loaded

    from traceweave import api

    result = api.check(database, rules, baseline=baseline)
    table, missing = result.table(), dict[str, str]()
    if format_ in ("table", "markdown"):
        table = table.select(["rule", "result", "found", "was", "limit"])
        missing = {o.rule.name: o.missing for o in result.outcomes if o.missing}
    print_rows(table.to_reader(), format_, output, most_rows)
    for rule, why in missing.items():
        note(f"{rule}: no value: {why}")
    if junit is not None:
        write_junit(result, database.name, junit)
        note(f"wrote {junit}")
    if not result.ok:
        context.exit(CROSSED)
