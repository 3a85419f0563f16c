"""Results as frames of pandas and polars and as Arrow, and what a type checker knows of them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import traceweave
from tests.conftest import ROOT
from tests.marks import nightly
from traceweave import analyses


@pytest.fixture
def database(fixtures: Path, database_of: Callable[..., Path]) -> Path:
    return database_of(fixtures / "ddp_gloo_4ranks")


def test_results_come_as_what_is_asked_for(database: Path) -> None:
    query = "SELECT 1763805600123456789 AS ns, NULL::BIGINT AS none, sum(i) AS s FROM range(3) t(i)"
    with traceweave.open(database) as one, traceweave.open(database, frames="polars") as two:
        assert isinstance(one.sql(query), pd.DataFrame)
        frame = two.sql(query)
        assert isinstance(frame, pl.DataFrame)
        assert frame.rows() == [(1763805600123456789, None, 3)]
        assert frame.schema["s"] == pl.Int64
        assert (
            two.breakdown().rows()
            == one.breakdown()
            .astype(object)
            .where(one.breakdown().notna(), None)
            .apply(tuple, axis=1)
            .to_list()
        )
    with traceweave.open(database, frames="arrow") as three:
        assert isinstance(three.breakdown(), pa.Table)
        assert three.sql(query).to_pylist() == [{"ns": 1763805600123456789, "none": None, "s": 3}]


def test_other_frames_are_refused(database: Path) -> None:
    with pytest.raises(traceweave.UsageError, match="did you mean 'polars'"):
        traceweave.open(database, frames="polar")  # type: ignore[call-overload]


@nightly
def test_a_type_checker_knows_every_analysis_and_its_choices(tmp_path: Path) -> None:
    names = [analysis.name for analysis in analyses.catalog()]
    script = tmp_path / "asks.py"
    script.write_text(
        "import traceweave\n"
        "run = traceweave.open('a')\n"
        "reveal_type(run.gaps(min_gap_ns=5))\n"
        "reveal_type(traceweave.open('a', frames='polars').gaps())\n"
        + "".join(f"run.{name}()\n" for name in names)
        + "run.brakedown()\n"
        "run.breakdown(window='dvice')\n"
        "run.breakdown(windw='device')\n"
    )
    # where the project itself is checked, what it imports need not be checked again
    said = subprocess.run(
        [sys.executable, "-m", "mypy", script],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.splitlines()  # fmt: skip
    last = len(names) + 4
    assert [line.partition(": ")[2] for line in said if ": note: Rev" in line] == [
        'note: Revealed type is "pandas.core.frame.DataFrame"',
        'note: Revealed type is "polars.dataframe.frame.DataFrame"',
    ]
    wrong = [line for line in said if ": error: " in line]
    assert [int(line.split(":")[1]) for line in wrong] == [last + 1, last + 2, last + 3], said
