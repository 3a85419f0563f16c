"""The section that says what fixing would be worth, from rows by hand."""

from typing import Any

from traceweave.report.sections.findings import Findings
from traceweave.report.sections.worth import Worth, worth_section

ADVICE = "waits between streams are inferred: record them"
KEYS = ("rule", "title", "ranks", "group_id", "scenario", "step_ns", "gain_ns", "alone_ns")


def fix(n: int, *values: object, note: str | None = None) -> dict[str, Any]:
    """Return a row of `fixes` of a step of 10 ms."""
    row: dict[str, Any] = dict(zip(KEYS, values, strict=True))
    share = None if row["gain_ns"] is None else 1 - row["step_ns"] / 10_000_000
    return {"n": n, **row, "together_share": share, "bottleneck": "launch of rank 1", "note": note}


MEASURED = (None, None, None, None, None, 10_000_000, None, None)
ROWS = [
    fix(0, *MEASURED),
    fix(
        1, "straggler", "Rank 2 is late", [2], None, "rank=2 like=median", 7_000_000, 3_000_000,
        3_000_000,
    ),
    fix(
        2,
        "slow_link",
        "Links are slow",
        [0, 1],
        4,
        "group=4 times=0.5",
        6_500_000,
        500_000,
        900_000,
    ),
]  # fmt: skip
FOUND = Findings(
    [
        {"rule": "imbalance", "ranks": None, "group_id": None, "scenario": None},
        {"rule": "slow_link", "ranks": [0, 1], "group_id": 4, "scenario": "group=4 times=0.5"},
        {"rule": "straggler", "ranks": [2], "group_id": None, "scenario": "rank=2 like=median"},
    ]
)


def test_every_bar_begins_where_the_one_above_ends_and_leads_to_its_finding() -> None:
    bars = worth_section(Worth(ROWS, ()), FOUND).bars
    assert [(bar.left, bar.gained) for bar in bars] == [(1.0, 0.0), (0.7, 0.3), (0.65, 0.05)]
    assert [bar.anchor for bar in bars] == ["budget", "finding-3", "finding-2"]
    assert [bar.label for bar in bars] == [
        "As measured", "1. Rank 2 is late", "2. Links are slow",
    ]  # fmt: skip
    assert bars[1].text == "7.00 ms, -3.00 ms (-30.0%)"
    assert bars[1].code == "traceweave what-if run.duckdb 'rank=2 like=median'"


def test_a_weak_replay_is_said_with_what_to_switch_on() -> None:
    note = "12% of the critical path is delay that no edge explains"
    weak = [fix(0, *MEASURED, note=note), *ROWS[1:]]
    notes = worth_section(Worth(weak, (ADVICE,)), FOUND).notes
    assert notes[0].startswith("With all of them a step takes 6.50 ms in place of 10.0 ms;")
    assert notes[1] == f"To be read with care: {note}."
    assert notes[2] == f"What this replay lacks: {ADVICE}."


def test_what_is_not_replayed_has_its_reason() -> None:
    refused = [fix(0, *[None] * 8, note="replay is refused: because")]
    section = worth_section(Worth(refused, ()), FOUND)
    assert section.empty == "Costs are bounds: replay is refused: because."
    assert not section.bars
    assert not section.tables
    nothing = worth_section(Worth([], ()), FOUND)
    assert nothing.empty == "No finding says what its fix would be for a replay."
    alone = worth_section(Worth(ROWS[:1], ()), FOUND)
    assert "No finding that can be replayed" in alone.notes[0]
