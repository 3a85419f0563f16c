"""The first paragraph comes from the analysis `findings`."""

from collections.abc import Callable
from pathlib import Path

from tests.cases import cases
from tests.marks import nightly
from tests.report.conftest import MakeReport, MakeRun
from tests.report.handmade import RUNS
from traceweave.analyses.blocks import Block
from traceweave.report.cards import cards
from traceweave.report.page import Card
from traceweave.report.render import build_report
from traceweave.report.sections.findings import (
    Findings,
    findings_section,
    headline_in_words,
    load_findings,
    rest_in_words,
)
from traceweave.store.database import open_database


def test_the_headline_and_paragraph_tell_the_costliest_finding(
    shared_run: MakeRun, report_of: MakeReport
) -> None:
    # of 20 ms of transfer, 10 ms run beside compute on rank 3 and nothing on the three others;
    # that of the next step is launched as it starts, and after the last of three steps comes none
    verdict = report_of(ranks=4, steps=3).verdict
    assert verdict.headline.endswith(
        "; the largest cost, at most 17.5 ms per step (17.5%): Each step hides 12.5% of the"
        " transfers that could overlap"
    )
    card = verdict.cards[0]
    assert (card.said.severity, card.sign) == ("warning", "▲")
    assert card.said.title == "Each step hides 12.5% of the transfers that could overlap"
    assert card.said.evidence == (
        "Compute hides 12.5% of the transfers that could overlap with it. At most 17.5 ms more"
        " per step could be hidden. For 66.7% of it, the host has not launched the compute that"
        " follows"
    )
    # 0.175 * 4 ranks * 24 h
    assert (card.said.cost, card.by_the_day) == (
        "at most 17.5 ms per step (17.5%)",
        "16.8 GPU-hours a day",
    )
    findings = load_findings(shared_run(ranks=4, steps=3))
    slow = [row for row in findings.rows if row["rule"] == "slow_kernels"]
    assert headline_in_words(Findings(slow)) == (
        "the largest cost, at most 10.0 ms per step (10.0%): Rank 3 takes 16.7% longer for the"
        " same kernels"
    )


def test_more_findings_than_the_paragraph_tells_are_counted() -> None:
    row = {"severity": "warning", "rule": "x", "ranks": None, "cost_ns": None, "step_share": None,
           "uncertainty_ns": None, "on_top_ns": None, "bound_ns": None, "cost_is": None,
           "scenario": "s", "title": "T", "evidence": "E", "advice": "A", "proof": "p",
           "group_id": None}  # fmt: skip
    five = Findings([{**row} for _ in range(5)])
    said = Block("warning", "", "T", "E", "A", "traceweave what-if my.duckdb s")
    assert cards(five, (), None, "my.duckdb") == tuple(
        Card(f"finding-{place}", "▲", said) for place in (1, 2, 3, 4, 5)
    )
    assert rest_in_words(five) == "2 more findings below."
    assert rest_in_words(Findings([row] * 3)) == ""
    assert headline_in_words(Findings([row])) == "no finding would save much"


def test_nothing_found_is_said(shared_run: MakeRun) -> None:
    findings = load_findings(shared_run(**RUNS["nothing"]))
    assert (findings.rows, cards(findings, (), None, "my.duckdb")) == ([], ())
    assert findings_section(findings, ()).empty == "No rule has anything to say about this run."


@nightly
@cases
def test_the_headline_names_the_costliest_also_where_it_is_no_fault(
    fixtures: Path, database_of: Callable[..., Path], name: str, said: str
) -> None:
    with open_database(database_of(fixtures / name)) as con:
        report = build_report(con)
        costliest = load_findings(con).rows[0]
    assert report.verdict.headline.endswith(f"; the largest cost, {said}")
    first = report.verdict.cards[0]
    assert (first.said.severity, first.said.title) == ("info", costliest["title"])


@nightly
def test_a_headline_says_that_no_finding_would_save_much(
    corpus: Path, database_of: Callable[..., Path]
) -> None:
    trace = next((corpus / "nsys").glob("ddp_4gpu_baseline*"))
    with open_database(database_of(trace)) as con:
        report = build_report(con)
    # the largest are 3.8 and 1.7%
    assert report.verdict.headline == "91.6% of the step is compute; no finding would save much"
    assert report.verdict.cards == ()
