"""Collectives on a stream of their own, replayed: what waits for them is kept as far as known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder
from tests.analyses.test_own import written
from tests.conftest import Recorded, Simulated
from tests.marks import first_at_once, nightly
from tests.replay.by_hand import US
from traceweave.errors import UsageError
from traceweave.replay.model import Model
from traceweave_simulator import Config


def on_one_stream(
    empty_run: duckdb.DuckDBPyConnection, op: str, role: str = "dp", last: str = "gemm"
) -> Model:
    """Two ranks alike, all launched at 0 and on one stream; `last` is the class of C. Times in us.

    stream 7   A 0-10   R 10-14   B 14-24   R 24-28   C 28-38
    """
    run = Builder(empty_run)
    run.group(0, [0, 1], role=role, role_source="description")
    kernels: dict[tuple[int, int], int] = {}
    for rank in range(2):
        run.rank(rank)
        run.step(rank, 1, (0, 38 * US), (0, 38 * US))
        for n, (start, end) in enumerate(((0, 10), (10, 14), (14, 24), (24, 28), (28, 38))):
            called = run.launch(rank, (n - 10, n - 9), step=1)
            category, kind = ("communication", "collective") if n % 2 else ("compute", "gemm")
            more = {"class": last if n == 4 else kind, "launch": called, "step": 1}
            kernels[rank, n] = run.gpu(rank, (start * US, end * US), category, **more)
    for n, start in ((1, 10), (3, 24)):
        each = {rank: {"gpu_op_id": kernels[rank, n]} for rank in range(2)}
        both = dict.fromkeys(range(2), (start * US, (start + 4) * US))
        run.collective(both, op, step=1, each=each)
    run.write()
    return Model(empty_run)


def gain(model: Model, text: str = "stream=own") -> float:
    [answer] = model.answers([text])
    return answer.gain_ns / US


def test_compute_does_not_wait_for_what_only_its_stream_put_before_it(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    # A 0-10, B 10-20, C 20-30 beside R 10-14 and R 20-24
    assert gain(on_one_stream(empty_run, "all_to_all")) == pytest.approx(8)


def test_the_optimizer_waits_for_reductions(empty_run: duckdb.DuckDBPyConnection) -> None:
    # the second R has B's result at 20, and C waits for it: 24-34
    assert gain(on_one_stream(empty_run, "all_reduce", last="optimizer")) == pytest.approx(4)


def test_a_gather_needs_no_compute_before_it_and_is_needed_by_what_follows(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    # R 0-4 and R 4-8 beside A 0-10
    assert gain(on_one_stream(empty_run, "all_gather")) == pytest.approx(8)


@nightly
def test_some_collectives_alone_may_have_it(empty_run: duckdb.DuckDBPyConnection) -> None:
    model = on_one_stream(empty_run, "all_to_all")
    assert gain(model, "step=1 stream=7 stream=own") == pytest.approx(8)
    with pytest.raises(UsageError, match="no stream 9"):
        gain(model, "stream=9 stream=own")


def test_tensor_parallelism_needs_each_result_at_once(empty_run: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UsageError, match="those of tensor parallelism left out"):
        gain(on_one_stream(empty_run, "all_reduce", role="tp"))


@first_at_once()
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stream=own kind=compute", "stream=own are for kind=transfer"),
        ("stream=own times=0", "more than one change: times, stream=own"),
    ],
)
def test_what_makes_no_sense_is_refused(
    empty_run: duckdb.DuckDBPyConnection, text: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        gain(on_one_stream(empty_run, "all_to_all"), text)


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
