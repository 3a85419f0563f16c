"""A first look at a long run: its first steps, said before the rest is read."""

import gzip
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.marks import nightly
from tests.rewritten import rewritten
from traceweave.cli import main
from traceweave.cli.ingest import read_and_tell
from traceweave.explorer.opening import Opening
from traceweave.ingestion import first_steps, ingest
from traceweave.store.database import open_database


@pytest.fixture
def all_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_steps, "LONG_BYTES", 0)


class Looks:
    """What a first look was given."""

    def __init__(self) -> None:
        self.steps: list[Sequence[int]] = []
        self.counts: list[tuple[object, ...]] = []
        self.database: Path | None = None

    def __call__(self, steps: Sequence[int], database: Path) -> None:
        self.steps.append(steps)
        self.database = database
        with open_database(database) as con:
            self.counts += con.execute(
                "SELECT count(DISTINCT rank), list(DISTINCT step ORDER BY step),"
                " (SELECT count(*) FROM collective_instances WHERE ranks_seen > 1) > 0 FROM steps"
            ).fetchall()


@nightly
@pytest.mark.usefixtures("all_is_long")
def test_a_look_has_the_first_steps_of_every_rank_and_changes_nothing(
    fixtures: Path, tmp_path: Path
) -> None:
    looks = Looks()
    ingest(fixtures / "ddp_gloo_4ranks", tmp_path / "looked.duckdb", first_look=looks)
    ingest(fixtures / "ddp_gloo_4ranks", tmp_path / "run.duckdb")
    (steps,) = looks.steps
    assert looks.counts == [(4, list(steps), True)]
    assert len(steps) == 1
    assert looks.database is not None
    assert not looks.database.exists()
    tables = []
    for name in ("looked", "run"):
        with open_database(tmp_path / f"{name}.duckdb") as con:
            tables.append(con.execute("FROM host_ops ORDER BY ALL").fetchall())
    assert tables[0] == tables[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["looked.duckdb", "run.duckdb"]


@pytest.mark.usefixtures("all_is_long")
def test_three_steps_are_looked_at_where_that_is_little(fixtures: Path, tmp_path: Path) -> None:
    looks = Looks()
    ingest(fixtures / "root_scatters_nccl", tmp_path / "run.duckdb", first_look=looks)
    assert [len(steps) for steps in looks.steps] == [3]


def test_nobody_needs_a_look_at_little(fixtures: Path, tmp_path: Path) -> None:
    looks = Looks()
    ingest(fixtures / "slow_rank_nccl", tmp_path / "run.duckdb", first_look=looks)
    assert looks.steps == []


@pytest.mark.usefixtures("all_is_long")
def test_there_is_no_look_where_address_space_is_limited(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What DuckDB took for the look would lack afterwards."""
    monkeypatch.setattr("traceweave.ingestion.room._limit_mib", lambda: 1 << 20)
    looks = Looks()
    ingest(fixtures / "slow_rank_nccl", tmp_path / "run.duckdb", first_look=looks)
    assert looks.steps == []


@nightly
@pytest.mark.usefixtures("all_is_long")
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("odd_groups_gloo", {"step_range": "ProfilerStep#(\\d+)"}),  # the look would need it too
        ("pipeline_gpipe", {}),  # fewer than four steps
        ("ddp_gloo_nsys", {}),
    ],
)
def test_there_is_no_look_without_steps_that_are_a_small_part(
    fixtures: Path, tmp_path: Path, name: str, how: dict[str, str]
) -> None:
    looks = Looks()
    ingest(fixtures / name, tmp_path / "run.duckdb", first_look=looks, **how)  # type: ignore[arg-type]
    assert looks.steps == []


@pytest.mark.usefixtures("all_is_long")
def test_a_look_that_fails_takes_nothing_with_it(fixtures: Path, tmp_path: Path) -> None:
    """A file that is damaged in the first step is told of once, when all is read."""
    traces = tmp_path / "traces"
    shutil.copytree(fixtures / "slow_rank_nccl", traces)
    text = gzip.decompress((traces / "rank1.json.gz").read_bytes())
    (traces / "rank1.json.gz").unlink()
    (traces / "rank1.json").write_bytes(text[: len(text) // 2])
    looks = Looks()
    result = ingest(traces, tmp_path / "run.duckdb", first_look=looks)
    assert [source.status for source in result.sources] == ["ok", "partial", "ok", "ok"]


@pytest.mark.usefixtures("all_is_long")
def test_ingest_says_what_the_first_steps_show_before_what_all_do(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "run.duckdb"
    assert main(["ingest", str(fixtures / "slow_rank_nccl"), "-o", str(target)]) == 0
    said = capsys.readouterr().err.splitlines()
    first = next(n for n, line in enumerate(said) if line.startswith("first look, at step "))
    assert said[first].endswith(" alone, before the rest is read:")
    assert said[first + 1].startswith("  step time: ")
    whole = next(n for n, line in enumerate(said) if line.startswith("step time: "))
    assert first < said.index(next(line for line in said if "ranks 0-3 from" in line)) < whole
    block = said[first + 2 : next(n for n, line in enumerate(said) if "ranks 0-3 from" in line)]
    assert sum(line.startswith("    Next: traceweave ") for line in block) in range(1, 4)
    assert all(line.startswith("  ") for line in block[:-1])


@nightly
@pytest.mark.usefixtures("all_is_long")
def test_on_a_terminal_a_look_is_no_wider_and_in_the_browser_it_has_no_colours(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traceweave.cli.colour.is_coloured", lambda _: True)
    monkeypatch.setattr("traceweave.cli.verdict.page_width", lambda _: 60)
    opening = Opening()
    said: list[str] = []
    monkeypatch.setattr(opening, "say", said.append)
    read_and_tell(str(fixtures / "slow_rank_nccl"), tmp_path / "run.duckdb", opening)
    assert len(said) > 3
    assert "\x1b" not in "".join(said)
    assert all(len(line) <= 60 for line in said if not line.startswith("    Next: "))


@nightly
@pytest.mark.usefixtures("all_is_long")
@pytest.mark.parametrize("option", ["--no-verdict", "--quiet"])
def test_who_wants_no_verdict_gets_no_look(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    command = ["ingest", str(fixtures / "slow_rank_nccl"), "-o", str(tmp_path / "run.duckdb")]
    assert main([*command, option]) == 0
    assert "first look" not in capsys.readouterr().err


@nightly
@pytest.mark.usefixtures("all_is_long")
def test_ranks_whose_recordings_begin_at_different_steps_are_looked_at_where_all_are(
    fixtures: Path, tmp_path: Path
) -> None:
    numbers: set[int] = set()

    def renumber(trace: dict[str, Any]) -> None:
        """As if one more step had come before those of rank 0."""
        for event in trace["traceEvents"]:
            if event["name"].startswith("ProfilerStep#"):
                number = int(event["name"].partition("#")[2])
                numbers.add(number)
                event["name"] = f"ProfilerStep#{number + (trace['distributedInfo']['rank'] == 0)}"

    looks = Looks()
    traces = rewritten(fixtures / "root_scatters_nccl", tmp_path / "traces", renumber)
    ingest(traces, tmp_path / "run.duckdb", first_look=looks)
    assert looks.steps == [sorted(numbers)[1:3]]
