"""traceweave check: limits for CI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from traceweave.cli.options import DATABASE, OneOf, Printing, example, printing_rows
from traceweave.errors import UsageError

if TYPE_CHECKING:
    from traceweave.checks import CheckResult

CROSSED = 1
"""Exit code when a limit is crossed."""


@click.command(
    short_help="Check numbers of a run against limits, for CI.",
    epilog=example(
        "traceweave check run.duckdb --rules rules.toml --init",
        "traceweave check run.duckdb --rules rules.toml",
        "traceweave check run.duckdb --rules rules.toml --baseline base.duckdb --junit check.xml",
        "traceweave check run.duckdb --rules rules.toml --baseline a.duckdb --baseline b.duckdb",
        "traceweave check run.duckdb --rules rules.toml --annotations gitlab quality.json",
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
    "--init",
    is_flag=True,
    help="Write a rules file to --rules, which must not be there yet: limits that this run holds.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Run that rules with compare, max_increase or max_decrease compare with. Several, recorded"
    " from the same code, tell the noise that a change has to exceed.",
)
@click.option(
    "--accept-differences",
    is_flag=True,
    help="Compare with the baseline also where the two runs are not comparable: another GPU model,"
    " world size or program.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the outcomes as JUnit XML.",
)
@click.option(
    "--annotations",
    multiple=True,
    type=(OneOf(["github", "gitlab"]), click.Path(path_type=Path, dir_okay=False)),
    metavar="[github|gitlab] FILE",
    help="Also write the failures as these show them beside a change: commands of GitHub Actions"
    " (FILE is /dev/stderr, say; '-' is stdout) or a code quality report of GitLab.",
)
@printing_rows
@click.pass_context
def check(
    context: click.Context,
    database: Path,
    rules: Path,
    init: bool,
    baselines: tuple[Path, ...],
    accept_differences: bool,
    junit: Path | None,
    annotations: tuple[tuple[Literal["github", "gitlab"], Path], ...],
    printing: Printing,
) -> None:
    """Check the run in DATABASE against the limits in a rules file.

    With a baseline it begins with whether the two runs can be compared; without one, what needs it
    is skipped. Exit code 1 if a limit is crossed, a number is unknown, a rule compares runs that
    are not comparable, or every limit was skipped; 2 if the rules file is wrong.

    A rule has what it measures (analysis, compare or what_if with column, aggregate, where and
    params; or sql) and a limit: max, min, max_increase, max_decrease. --init writes examples.
    """
    from traceweave.checks import read_rules
    from traceweave.cli.blocks import named
    from traceweave.cli.output import note
    from traceweave.cli.progress import waiting
    from traceweave.targets import is_stream

    if init:
        if baselines:
            raise UsageError(
                "--init writes the limits of the run in DATABASE: name the baseline there, without"
                " --baseline"
            )
        _write_starter_rules(database, rules)
        return
    read_rules(rules)  # what is wrong with them is said before what asks the run is loaded

    from traceweave import api

    with waiting("checking"):
        result = api.check(
            database,
            rules,
            baseline=baselines,
            accept_differences=accept_differences,
            junit=junit,
            annotations=annotations,
        )
    _print(result, printing)
    for text in result.remarks:
        note(text)
    note(result.summary)
    if baselines and not result.ok:
        note(f"what changed: traceweave compare {named(baselines[0])} {named(database)}")
    for path in (junit, *(path for _, path in annotations if str(path) != "-")):
        if path is not None and not is_stream(path):
            note(f"wrote {path}")
    if not result.ok:
        context.exit(CROSSED)


def _print(result: CheckResult, printing: Printing) -> None:
    """Print whether the runs can be compared, and the outcomes; a program gets these alone."""
    from traceweave.cli.output import note, print_rows

    sentences = result.comparability.sentences if result.comparability else ()
    table = result.table()
    if printing.format_ not in ("table", "markdown"):
        for sentence in sentences:
            note(sentence)
        print_rows(table.to_reader(), printing)
        return
    for sentence in sentences:
        print(sentence)
    print("\n" if sentences else "", end="")
    table = table.select(["rule", "result", "found", "was", "limit"])
    print_rows(table.to_reader(), printing)
    for text in dict.fromkeys(_remarks(result)):  # two limits of a rule may have the same rows
        note(text)


def _write_starter_rules(database: Path, rules: Path) -> None:
    from traceweave import api
    from traceweave.cli.output import note
    from traceweave.outputs import write_whole
    from traceweave.targets import FileKind

    if rules.exists():
        raise UsageError(f"{rules}: is there already; name a new file with --rules")
    with api.open(database) as run:
        text = run.starter_rules()
    write_whole(rules, text.encode(), FileKind.TEXT)
    note(f"wrote {rules}; check with: traceweave check {database} --rules {rules}")


def _remarks(result: CheckResult) -> Iterator[str]:
    """Say what the table leaves open: once for all that is not comparable, once per rule else."""
    if any(outcome.incomparable for outcome in result.outcomes):
        yield (
            "what compares with the baseline fails; --accept-differences, or accept_differences ="
            " true in a rule, checks it all the same"
        )
    for one in result.outcomes:
        if one.where and one.crossed:
            yield f"{one.rule.name}: {one.where}"
        elif one.untold:
            yield f"{one.rule.name}: cannot tell: {one.undecided}"
    missing = {one.rule.name: one for one in result.outcomes if one.missing}
    for rule, one in missing.items():
        yield f"{rule}: {one.missing}" if one.unchecked else f"{rule}: no value: {one.missing}"
