"""Rules files of tests, and what checking them says."""

from pathlib import Path
from textwrap import dedent

from duckdb import DuckDBPyConnection as Connection

import traceweave
from tests.analyses.builders import Builder
from traceweave.checks import CheckResult, check_run, read_rules

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "rules.toml"

COMPUTE = '[[rule]]\nname = "compute"\nanalysis = "breakdown"\ncolumn = "compute_ns"\n'

HEAD = '[[rule]]\nname = "r"\n'

CHANGES = """
    [[rule]]
    name = "step time"
    analysis = "steps"
    column = "length_ns"
    aggregate = "median"
    max_increase = "1 %"

    [[rule]]
    name = "beyond noise"
    analysis = "steps"
    column = "length_ns"
    aggregate = "median"
    max_increase = "noise"

    [[rule]]
    name = "significant"
    compare = "step"
    sql = "SELECT coalesce(max(relative), 0) FROM rows WHERE verdict = 'slower'"
    max = "2 %"
    """


def rules_file(folder: Path, text: str) -> Path:
    path = folder / "rules.toml"
    path.write_text(dedent(text))
    return path


def checked(
    con: Connection, folder: Path, text: str, baseline: Connection | None = None
) -> CheckResult:
    return check_run(
        con, read_rules(rules_file(folder, text)), baselines=[baseline] if baseline else []
    )


def results(
    new: Path, *baselines: Path, folder: Path, accept: bool = False
) -> dict[str, tuple[str, float | None]]:
    rules = rules_file(folder, CHANGES)
    found = traceweave.check(new, rules, baseline=baselines, accept_differences=accept)
    return {one.rule.name: (one.result, one.noise) for one in found.outcomes}


def another_gpu(build: Builder) -> None:
    build.con.execute("UPDATE base.rank_sources SET gpu_name = 'B'")


def one_gpu(build: Builder) -> None:
    build.con.execute("UPDATE base.rank_sources SET gpu_name = 'A'")
