"""The noise between recordings of one job, which several baselines tell."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from tests.checks.asking import COMPUTE, another_gpu, one_gpu, results, rules_file
from tests.comparison.runs import run_of
from tests.marks import nightly
from traceweave.checks import check_run, read_rules
from traceweave.checks.baselines import noise_of
from traceweave.cli.main import main


def test_noise_is_the_prediction_limit_of_one_more_recording() -> None:
    # Student's t at 95 %, one-sided: 6.314 for one degree of freedom, 2.132 for four
    assert noise_of([100, 110]) == pytest.approx(6.3138 * math.sqrt(50) * math.sqrt(1.5), rel=1e-4)
    assert noise_of([1, 2, 3, 4, 5]) == pytest.approx(2.1318 * math.sqrt(2.5 * 1.2), rel=1e-4)
    assert (noise_of([7, 7]), noise_of([7]), noise_of([])) == (0, None, None)


@nightly
def test_a_run_like_its_baselines_passes_and_the_straggler_fails(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    balanced = database_of(fixtures / "ddp_gloo_4ranks")
    late = database_of(fixtures / "ddp_gloo_straggler")
    equal = results(late, balanced, balanced, folder=tmp_path)
    results_of_equal = [("crossed", None), ("skipped", None), ("crossed", None)]
    assert list(equal.values()) == results_of_equal, "the same recording twice tells no noise"
    one = results(late, balanced, folder=tmp_path)
    assert one["beyond noise"] == ("skipped", None), "one recording does not tell its noise"
    both = results(late, balanced, late, folder=tmp_path)
    assert [result for result, _ in both.values()] == ["ok", "ok", "ok"]


@nightly
def test_recordings_of_one_job_differ_by_their_noise(
    corpus: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    # the job was recorded three times: steps of 205 and 227 ms, and once of 1,210 ms
    two = corpus / "kineto" / "torchrec_two_runs_in_one_folder"
    slow, usual = (database_of(*sorted(two.glob(f"*_{pid}*"))) for pid in ("24", "26"))
    other = database_of(corpus / "kineto" / "torchrec_4")

    alone = results(usual, other, folder=tmp_path)
    among = results(usual, other, slow, folder=tmp_path)
    worse = results(slow, other, usual, folder=tmp_path)

    assert alone["step time"][0] == "crossed", "it took 11 % longer than one other recording"
    assert [result for result, _ in among.values()] == ["ok"] * 3
    assert [result for result, _ in worse.values()] == ["crossed"] * 3
    spread = (226_651_000 - 204_750_000) / math.sqrt(2)
    assert worse["step time"][1] == pytest.approx(6.3138 * math.sqrt(1.5) * spread, rel=0.02)


@nightly
def test_noise_of_what_is_not_comparable_fails(tmp_path: Path) -> None:
    parsed = read_rules(rules_file(tmp_path, COMPUTE + 'max_increase = "noise"\n'))
    with run_of(change=one_gpu) as base, run_of(change=another_gpu) as new:
        [outcome] = check_run(new, parsed, baselines=[base]).outcomes
        [accepted] = check_run(new, parsed, baselines=[base], accept_differences=True).outcomes
    assert (outcome.result, outcome.crossed) == ("not comparable", True)
    assert accepted.result == "skipped"


@nightly
def test_the_same_recording_twice_tells_no_noise(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, copy = databases[0], tmp_path / "copy.duckdb"
    shutil.copy(base, copy)
    rules = rules_file(tmp_path, COMPUTE + 'max_increase = "noise"\nmax = "1 s"\n')

    found = traceweave.check(databases[1], rules, baseline=[base, copy])

    assert [(one.result, one.noise) for one in found.outcomes] == [("ok", None), ("skipped", None)]
    assert found.outcomes[1].missing == (
        "skipped, the same recording twice tells no noise: give another one"
    )
    baselines = ["--baseline", str(base), "--baseline", str(copy)]
    assert main(["check", str(databases[1]), "--rules", str(rules), *baselines]) == 0
    assert "baseline 2 is left out: it is the same recording as baseline 1" in (
        capsys.readouterr().err
    )
