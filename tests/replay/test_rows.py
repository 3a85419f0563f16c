"""What replay reads is numbered once, and medians are those of numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.marks import nightly
from traceweave.replay.likeness import lower_quantiles
from traceweave.replay.rows import Tables
from traceweave.store.database import open_database

RENAME = "CREATE OR REPLACE TEMP TABLE tw_replay_names AS SELECT 0 AS name_id, 'other' AS name"


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
