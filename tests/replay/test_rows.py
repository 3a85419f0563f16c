"""What replay reads is numbered once, and medians are those of numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.marks import first_at_once, nightly
from traceweave.replay import rows
from traceweave.replay.likeness import lower_quantiles
from traceweave.replay.rows import Tables
from traceweave.store.database import open_database

RENAME = "CREATE OR REPLACE TEMP TABLE tw_replay_names AS SELECT 0 AS number, 'other' AS name"


@nightly
def test_names_are_numbered_once_where_nothing_changes(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    with open_database(database_of(fixtures / "ddp_gloo_straggler")) as con:
        names = Tables(con).names.names
        con.execute(RENAME)
        assert Tables(con).names.names == ("other",)
        con.execute("DROP TABLE temp.tw_replay_instances")
        assert Tables(con).names.names == names


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_lower_quantiles_are_those_of_numpy(share: float) -> None:
    random = np.random.default_rng(1)
    for owners in range(1, 7):
        values = random.integers(0, 5, (50, owners)).astype(float)
        values[random.random(values.shape) < 0.4] = np.nan
        values[np.isnan(values).all(axis=1), 0] = 3
        expected = np.nanquantile(values, share, axis=1, method="lower")
        assert np.array_equal(lower_quantiles(values, share), expected)


@first_at_once()
@pytest.mark.parametrize(("share", "sizes"), [(2, [2, 2]), (1, [4]), (3, [1] * 4)])
def test_ranks_that_are_read_in_parts_have_the_same_rows(
    fixtures: Path,
    database_of: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    share: int,
    sizes: list[int],
) -> None:
    with open_database(database_of(fixtures / "ddp_gloo_4ranks")) as con:
        tables = Tables(con)
        whole = list(tables.ranks())
        monkeypatch.setattr(rows, "FEW_NODES", tables.most_nodes // share)
        assert [len(part) for part in tables.parts()] == sizes
        parts = list(tables.ranks())
    assert [part.rank for part in parts] == [part.rank for part in whole] == [0, 1, 2, 3]
    for one, other in zip(parts, whole, strict=True):
        for table in ("cpu", "collectives", "steps"):
            mine, theirs = getattr(one, table), getattr(other, table)
            assert len(theirs) > 0
            for column, values in theirs.items():
                assert len(values) > 0
                np.testing.assert_array_equal(mine[column], values)
    assert rows.together([], 0) == [[]]
