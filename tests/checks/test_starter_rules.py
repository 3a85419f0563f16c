"""Starter rules, written from a run: what they stop and what they let pass."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from tests.marks import nightly
from traceweave.cli.main import main


@nightly
def test_starter_rules_hold_for_their_run_and_fail_for_a_slower_one(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, straggling = (str(database) for database in databases)
    rules = tmp_path / "rules.toml"

    init = ["check", base, "--rules", str(rules), "--init"]
    assert main([*init, "--baseline", straggling]) == 2
    assert main(init) == 0
    assert main(["check", base, "--rules", str(rules)]) == 0
    assert main(["check", straggling, "--rules", str(rules)]) == 1

    err = capsys.readouterr().err
    assert "steps are not significantly slower: skipped, there is no baseline" in err
    assert "failed (step time" in err
    before = rules.read_text()
    assert main(init) == 2
    assert "is there already" in capsys.readouterr().err
    assert rules.read_text() == before


def slower_rank(traces: Path, folder: Path, rank: int, times: float) -> Path:
    """Return the run of traces in which all compute kernels of a rank take longer than those of the
    others, which take less: longer ones would run into the next on their stream."""
    folder = folder / "slower"
    folder.mkdir()
    for path in sorted(traces.glob("*.gz")):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        if trace["distributedInfo"]["rank"] != rank:
            for event in trace["traceEvents"]:
                if event.get("cat") == "kernel" and "nccl" not in event["name"].lower():
                    event["dur"] /= times
        (folder / path.name).write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    target = folder / "slower.duckdb"
    traceweave.ingest([folder], target)
    return target


def starter(database: Path, folder: Path) -> Path:
    path = folder / "starter.toml"
    with traceweave.open(database) as run:
        path.write_text(run.starter_rules())
    return path


@nightly
def test_starter_rules_stop_a_rank_whose_kernels_are_slower(
    corpus: Path, torchrec: Path, tmp_path: Path
) -> None:
    rules = starter(torchrec, tmp_path)
    slow = slower_rank(corpus / "kineto" / "torchrec_4", tmp_path, rank=1, times=1.1)

    same = traceweave.check(torchrec, rules, baseline=torchrec)
    found = traceweave.check(slow, rules, baseline=torchrec)

    assert same.ok
    crossed = {one.rule.name: one.where for one in found.outcomes if one.crossed}
    assert list(crossed) == ["ranks with slow kernels", "slowest rank's kernels beside the usual"]
    finding, kernels = crossed.values()
    assert finding.startswith("slow_kernels, rank 1: The same kernels take 10.3% longer on rank 1")
    assert kernels == "rank 1: 1.095, was 1 (+9.5%)"
    assert not traceweave.check(slow, rules).ok, "the finding needs no baseline"


@nightly
def test_starter_rules_call_no_rank_slow_in_another_recording_of_the_job(
    corpus: Path, database_of: Callable[..., Path], torchrec: Path, tmp_path: Path
) -> None:
    two = corpus / "kineto" / "torchrec_two_runs_in_one_folder"
    rules = starter(torchrec, tmp_path)
    for pid in ("24", "26"):
        again = database_of(*sorted(two.glob(f"*_{pid}*")))
        found = traceweave.check(again, rules, baseline=torchrec)
        results = {one.rule.name: one.result for one in found.outcomes}
        assert results["ranks with slow kernels"] == "ok"
        assert results["slowest rank's kernels beside the usual"] == "ok"
        assert results["ranks recorded"] == "ok"


@nightly
def test_starter_rules_miss_a_rank(
    corpus: Path, database_of: Callable[..., Path], torchrec: Path, tmp_path: Path
) -> None:
    three = database_of(*sorted((corpus / "kineto" / "torchrec_4").glob("*.gz"))[:3])
    found = traceweave.check(three, starter(torchrec, tmp_path))
    [missing] = [one for one in found.outcomes if one.crossed]
    assert missing.rule.name == "ranks recorded"
    assert missing.message == "ranks recorded = 3; limit: min 4; there are ranks 0-2"
