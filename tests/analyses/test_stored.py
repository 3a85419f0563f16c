"""Answers that ingest keeps in the database: equal to fresh ones, or not looked at."""

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import traceweave
from tests.marks import at_once, nightly
from traceweave.analyses import runner, stored
from traceweave.analyses.catalog import catalog
from traceweave.api import VERDICT
from traceweave.cli import main
from traceweave.store.draft import changing


@pytest.fixture
def kept(fixtures: Path, database_of: Callable[..., Path]) -> Path:
    """A run that keeps its answers."""
    return database_of(fixtures / "ddp_gloo_straggler")


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(kept, tmp_path / "copy.duckdb"))


def _answers(path: Path, *names: str) -> dict[str, pa.Table]:
    with traceweave.open(path, frames="arrow") as run:
        return {name: run.stream_analysis(name).read_all() for name in names or VERDICT}


def _found(path: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = _answers(path, "findings")["findings"].to_pylist()
    return rows


def _is_kept(path: Path) -> bool:
    with traceweave.open(path) as run:
        return bool(stored.stored(run.con))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As another version of traceweave, for which nothing is kept."""
    monkeypatch.setattr(stored, "_text", lambda: "another")
    return monkeypatch


@nightly
@pytest.mark.parametrize(
    "run", ["tp2_dp2_gloo", "kineto/megatron_tp2", "nsys/jacobi__2023.4.sqlite"]
)
def test_what_is_kept_is_what_is_computed(
    corpus: Path, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    """Every analysis and all shared rows, types and order too."""
    names = [analysis.name for analysis in catalog()]
    path = tmp_path / "run.duckdb"
    assert traceweave.ingest([corpus / run if "/" in run else fixtures / run], path).ok
    before = _answers(path, *names)
    monkeypatch.setattr("traceweave.api.VERDICT", names)
    traceweave.keep_answers(path)
    assert _is_kept(path)
    after = _answers(path, *names)
    for name in names:
        assert after[name].schema == before[name].schema, name
        assert after[name].to_pylist() == before[name].to_pylist(), name


def _refuse(*_: object) -> None:
    raise AssertionError("computed")


def test_kept_answers_are_read(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "prepare", _refuse)
    assert _answers(kept)["health"].num_rows > 5
    with traceweave.open(kept) as run, pytest.raises(AssertionError, match="computed"):
        run.findings(min_share=0.5)


@pytest.mark.usefixtures("fresh")
@nightly
def test_another_version_computes(kept: Path) -> None:
    assert not _is_kept(kept)
    assert _answers(kept)["health"].num_rows > 5


@pytest.mark.parametrize("findings", at_once([False, True], False))
def test_a_changed_database_is_asked_anew(copy: Path, findings: bool) -> None:
    """By anybody, in any table: here what rank 2 did is rank 1's."""
    with duckdb.connect(copy) as con:
        for table in ("host_ops", "collective_calls", "steps", "other_events"):
            con.execute(f"UPDATE base.{table} SET rank = 3 - rank WHERE rank IN (1, 2)")
    assert not _is_kept(copy)
    if findings:  # by night: to work them out takes long
        [ranks] = {tuple(row["ranks"]) for row in _found(copy) if row["rule"] == "straggler"}
        assert ranks != (2,)


@pytest.mark.parametrize("rows", [b"no rows", b"", None])
@nightly
def test_rows_that_are_none_are_computed(copy: Path, rows: bytes | None) -> None:
    """Somebody wrote them who knows what they have to be called."""
    before = _answers(copy)
    with changing(copy) as con:
        con.execute("UPDATE derived.answers SET rows = ?", [rows])
        con.execute("CHECKPOINT")
        state = stored._state(con)
        con.execute(
            "UPDATE derived.answers SET name = ? WHERE starts_with(name, 'of ')",
            [stored._stamp((state or 0) + 1)],
        )
    assert _is_kept(copy)
    assert _answers(copy) == before


@nightly
def test_refitted_clocks_have_answers_of_their_own(copy: Path, fresh: pytest.MonkeyPatch) -> None:
    traceweave.align(copy, method="wall clock")
    assert _is_kept(copy)
    kept = _answers(copy)
    fresh.setattr(stored, "_text", lambda: "yet another")
    assert not _is_kept(copy)
    assert kept == _answers(copy)


@nightly
def test_installed_analyses_leave_the_answers(copy: Path) -> None:
    traceweave.install_analyses(copy)
    assert _is_kept(copy)


def test_a_copy_that_nobody_may_write_is_read(copy: Path) -> None:
    copy.chmod(0o400)
    assert _is_kept(copy)


@nightly
def test_what_fails_leaves_the_run_as_it_was(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stored, "_as_bytes", fail)
    with pytest.raises(KeyboardInterrupt):
        traceweave.keep_answers(copy)
    monkeypatch.undo()
    assert _is_kept(copy)


@nightly
def test_a_run_folder_keeps_them_too(fixtures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run.tw"
    assert traceweave.ingest([fixtures / "tp2_dp2_gloo"], folder).ok
    traceweave.keep_answers(folder)
    assert _is_kept(folder)
    traceweave.verify(folder)


@nightly
def test_ingest_says_the_verdict(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 2 sleeps 40 ms in every step while it loads data."""
    path = tmp_path / "run.duckdb"
    main(["ingest", str(fixtures / "ddp_gloo_straggler"), "-o", str(path)])
    said = " ".join(capsys.readouterr().err.split())
    assert "recording: fit to judge" in said
    assert "step time: 87" in said
    assert "critical 39.5 ms per step (45.4%): Rank 2 waits for data, and 3 ranks wait" in said
    assert "Rank 2 keeps 3 ranks waiting 43.5 ms per step" in said
    assert f"traceweave what-if {path} 'rank=2 kind=data_loading like=median'" in said
    assert _is_kept(path)


def test_ingest_without_a_verdict_keeps_nothing(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.duckdb"
    trace = fixtures / "ddp_gloo_straggler" / "rank0.json.gz"
    main(["ingest", "--no-verdict", str(trace), "-o", str(path)])
    assert "step time" not in capsys.readouterr().err
    assert not _is_kept(path)


@nightly
def test_what_compare_asks_of_the_time_is_kept(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run whose steps are as long as on the host it asks more than the verdict does."""
    path = tmp_path / "run.duckdb"
    assert traceweave.ingest([corpus / "cases/reference"], path).ok
    traceweave.keep_answers(path)
    with traceweave.open(path, frames="arrow") as run:
        assert set(run.steps()["length_source"].to_pylist()) == {"host"}
    monkeypatch.setattr(runner, "prepare", _refuse)
    traceweave.compare(path, path)
