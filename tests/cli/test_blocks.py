"""Findings as blocks: on the terminal, in a Markdown file, and where columns are asked for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from traceweave.cli.blocks import block_lines
from traceweave.cli.main import main
from traceweave.cli.verdict import verdict_lines

ROW = {
    "severity": "critical", "title": "Rank 2 waits for data", "ranks": [2], "cost_ns": 39_600_000,
    "uncertainty_ns": 3_200_000,
    "on_top_ns": None,
    "step_share": 0.455, "per": "step", "cost_is": "replayed", "scenario": "rank=2 like=median",
    "evidence": "Rank 2 is in 'load' for 40.7 ms", "advice": "More workers", "proof": "stragglers",
}  # fmt: skip


@pytest.fixture
def database(fixtures: Path, database_of: Callable[..., Path]) -> Path:
    """A run that keeps its findings, as `traceweave ingest` leaves it."""
    return database_of(fixtures / "ddp_gloo_straggler")


def test_a_finding_is_a_block_whose_command_can_be_typed() -> None:
    assert block_lines(ROW, "'a run.duckdb'", 60) == [
        "critical  39.6 ms per step (45.5%): Rank 2 waits for data",
        "  Rank 2 is in 'load' for 40.7 ms",
        "  Try: More workers",
        "  Next: traceweave what-if 'a run.duckdb' 'rank=2 like=median'",
    ]


def test_a_bound_says_so_and_what_costs_no_time_has_its_title_alone() -> None:
    bound = {**ROW, "cost_is": "at most", "scenario": None}
    assert block_lines(bound, "r", 80)[0] == (
        "critical  at most 39.6 ms per step (45.5%): Rank 2 waits for data"
    )
    assert block_lines(bound, "r", 80)[-1] == "  Next: traceweave analyze stragglers r"
    free = {**ROW, "severity": "info", "cost_ns": None, "step_share": None, "evidence": None}
    assert block_lines(free, "r", 80)[:2] == ["info  Rank 2 waits for data", "  Try: More workers"]
    vague = {**ROW, "uncertainty_ns": 20_000_000}
    assert block_lines(vague, "r", 80)[0].startswith("critical  39.6 ms ±20.0 ms per step (45.5%)")
    unknown = block_lines({**ROW, "uncertainty_ns": 50_000_000}, "r", 120)[0]
    assert unknown.startswith(
        "critical  39.6 ms per step (45.5%); another recording may differ by 50.0 ms: Rank 2"
    )
    vain = {**ROW, "cost_ns": 0, "step_share": 0.0}
    assert block_lines(vain, "r", 80)[0] == "critical  no gain by replay: Rank 2 waits for data"
    # of a step of 10 s these are 8 ms: little, but not none
    for cost in (17, 8_000_000):
        little = {**ROW, "cost_ns": cost, "step_share": 0.0004, "uncertainty_ns": 9_000_000}
        assert block_lines(little, "r", 80)[0] == (
            "critical  hardly any gain by replay (<0.1%): Rank 2 waits for data"
        )


def test_lines_are_no_wider_than_the_terminal_and_names_do_not_control_it() -> None:
    row = {**ROW, "evidence": "word " * 40 + "\x1b[31m"}
    *lines, command = block_lines(row, "r", 50)
    assert max(map(len, lines)) <= 50
    assert "\x1b" not in "".join(lines)
    assert "\\x1b[31m" in "".join(lines)
    assert command.startswith("  Next: ")


def test_who_reads_gets_blocks_and_who_asks_for_columns_a_table(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str) -> str:
        assert main(["findings", str(database), *arguments]) == 0
        return capsys.readouterr().out

    blocks = said()
    first, *_ = blocks.splitlines()
    assert first.split("  ")[0] in ("critical", "warning", "info")
    assert blocks.count("  Next: traceweave ") == blocks.count("\n\n") + 1
    assert said("--rows", "1").count("  Next: ") == 1
    assert said("--columns", "severity,title").splitlines()[0].split() == ["severity", "title"]
    assert said("--format", "csv").startswith("severity,title,rule,ranks,")
    assert main(["findings", str(database), "-o", str(tmp_path / "rows.md")]) == 0
    written = (tmp_path / "rows.md").read_text(encoding="utf-8")
    assert written.startswith(f"- **{first.split('  ')[0]}** ")
    assert written.count("Next: `traceweave ") == blocks.count("  Next: ")


def test_costs_are_said_not_to_add_up_where_there_are_two(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for share in ("0.01", "0.45"):
        assert main(["findings", str(database), "-p", f"min_share={share}"]) == 0
        said.append("costs do not add up" in capsys.readouterr().err)
    assert said == [True, False]


def test_findings_without_a_cost_are_counted() -> None:
    free = {"cost_ns": None, "on_top_ns": None, "severity": "info"}
    [said, command] = verdict_lines([], [free] * 2, "run.duckdb")
    assert said == "no finding costs time, 2 other findings:"
    assert command == "  traceweave analyze findings run.duckdb"


def test_a_job_that_stands_still_is_said_first() -> None:
    hang = {**ROW, "cost_ns": None, "step_share": None, "title": "Rank 2 does not come to barrier"}
    lines = [*verdict_lines([], [hang, {**ROW, "cost_ns": None, "severity": "info"}], "run.duckdb")]
    assert lines[0] == "critical  Rank 2 does not come to barrier"
    assert "1 more finding:" in lines
