"""Collectives on a stream of their own, replayed on real and simulated runs; advice.cases has it by
hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import traceweave
from tests.analyses.test_own import written
from tests.conftest import Recorded, Simulated
from tests.marks import nightly
from traceweave.errors import UsageError
from traceweave_simulator import Config


@nightly
def test_six_exchanges_that_share_their_stream(recorded: Recorded, tmp_path: Path) -> None:
    """Per step 6 times compute of 3 ms and an exchange of 2.5 ms; the host waits for the last."""
    run = recorded("cases/samestream")
    [row] = run.what_if("stream=own").to_dict("records")
    # each of 144 pieces behind work on the same stream asks for it
    asked = "SELECT count(*) AS n FROM {{ ref('overlap_gains') }} WHERE scenario = 'stream=own'"
    assert run.analyze(written(tmp_path, "asked", asked))["n"].tolist() == [1]
    whole = run.overlap().iloc[0]
    assert row["gain_ns"] / 1e6 == pytest.approx(5 * 2.5, abs=0.02)
    assert whole["scenario"] == "stream=own"
    assert "by replay at most 12.5 ms per step" in whole["first_change"]


@nightly
def test_a_run_whose_collectives_have_one_is_told_so(
    corpus: Path, database_of: Callable[..., Path]
) -> None:
    with (
        traceweave.open(database_of(corpus / "kineto" / "torchrec_4")) as run,
        pytest.raises(UsageError, match="no collective is on a stream with compute"),
    ):
        run.what_if("stream=own")


@nightly
def test_a_real_run_gains_no_more_than_is_exposed_beside_waiting(
    corpus: Path, database_of: Callable[..., Path]
) -> None:
    """What no other rank was waited for is 0.364 ms per step, of which all could be hidden."""
    path = corpus / "nsys" / "fsdp_2rank_before__2026.2.sqlite"
    with traceweave.open(database_of(path)) as run:
        [row] = run.what_if("stream=own").to_dict("records")
    assert row["gain_ns"] / 1e6 == pytest.approx(0.364, abs=0.01)


OWN = Config(ranks=4, steps=5, layers=6)


@nightly
@pytest.mark.parametrize(
    "own",
    [
        replace(OWN, bucket_layers=1, layer_bytes=100_000_000),
        OWN,
        replace(OWN, parallelism="fsdp"),
        replace(OWN, parallelism="tp", group_size=2),
    ],
    ids=["DDP, small buckets", "DDP", "FSDP", "TPxDP"],
)  # fmt: skip
def test_the_run_with_a_stream_of_its_own_takes_what_was_predicted(
    own: Config, simulated: Simulated
) -> None:
    row = simulated(replace(own, shared_stream=True)).what_if("stream=own").iloc[0]
    true_ns = float(simulated(own).what_if("kind=compute times=1")["measured_step_ns"][0])
    assert row["predicted_step_ns"] == pytest.approx(true_ns, rel=0.01)
    want = row["measured_step_ns"] - true_ns
    assert want > 1_000_000
    assert row["gain_ns"] == pytest.approx(want, rel=0.05, abs=100_000)
