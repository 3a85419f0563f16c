"""The Python API: a notebook's view of a run."""

import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import traceweave
from tests.cases import cases
from tests.marks import first_at_once
from traceweave import analyses
from traceweave.overview import Caution


@pytest.fixture
def database(fixtures: Path, database_of: Callable[..., Path]) -> Path:
    return database_of(fixtures / "ddp_gloo_4ranks")


@pytest.fixture
def run(database: Path) -> Iterator[traceweave.Run]:
    with traceweave.open(database) as opened:
        yield opened


def test_sql_gives_a_frame_with_exact_integers(run: traceweave.Run) -> None:
    frame = run.sql(
        "SELECT * FROM (VALUES (1, 1706850122815782001, true, 'a'), (2, NULL, NULL, NULL))"
        " AS t(whole, gaps, flag, text)"
    )

    expected = pd.DataFrame(
        {
            "whole": np.array([1, 2], dtype=np.int32),
            "gaps": pd.array([1706850122815782001, None], dtype="Int64"),
            "flag": pd.array([True, None], dtype="boolean"),
            "text": pd.Series(["a", None], dtype=frame["text"].dtype),
        }
    )
    pd.testing.assert_frame_equal(frame, expected)


def test_sums_are_integers_and_not_decimals(run: traceweave.Run) -> None:
    frame = run.sql(
        "SELECT sum(a) AS total, sum(a) * 10000000000000000000 AS huge FROM range(4) AS t(a)"
    )
    assert frame["total"].dtype == np.int64
    assert frame["total"][0] == 6
    assert frame["huge"][0] == 60_000_000_000_000_000_000


def test_sql_takes_parameters_by_place_and_by_name(run: traceweave.Run) -> None:
    assert run.sql("SELECT count(*) AS n FROM ranks WHERE rank < ?", [2])["n"][0] == 2
    assert run.sql("SELECT count(*) AS n FROM ranks WHERE rank < $most", {"most": 3})["n"][0] == 3


@cases
def test_wrong_sql_is_explained_in_one_line(run: traceweave.Run, query: str, message: str) -> None:
    with pytest.raises(traceweave.QueryError) as error:
        run.sql(query)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@first_at_once()
@pytest.mark.parametrize("as_", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_a_frame_of_ones_own_is_a_table_of_queries(
    run: traceweave.Run, as_: Callable[[pd.DataFrame], object]
) -> None:
    run.register("nodes", as_(pd.DataFrame({"rank": [0, 1, 2, 3], "node": ["a", "a", "b", "b"]})))
    found = run.sql(
        "SELECT node, sum(idle_ns)::BIGINT AS idle_ns FROM breakdown() JOIN nodes USING (rank)"
        " GROUP BY node ORDER BY node"
    )
    idle = run.breakdown().groupby("rank")["idle_ns"].sum()
    assert found.to_numpy().tolist() == [["a", idle[0] + idle[1]], ["b", idle[2] + idle[3]]]


def test_no_frame_takes_the_place_of_a_table_of_the_run(run: traceweave.Run) -> None:
    with pytest.raises(traceweave.UsageError, match="'Ranks' is a table of the run; register the"):
        run.register("Ranks", pd.DataFrame({"rank": [0]}))
    with pytest.raises(traceweave.UsageError, match=r"a frame of pandas or polars.* 'x' is dict"):
        run.register("x", {"rank": 0})
    assert len(run.sql("FROM ranks")) == 4


def test_every_analysis_is_a_method(run: traceweave.Run) -> None:
    for analysis in analyses.catalog():
        assert analysis.name in dir(run)
        method = getattr(run, analysis.name)
        text = solid(method.__doc__)
        assert text.startswith(solid(f"{analysis.name}: {analysis.summary} {analysis.answers}"))
        for column in analysis.columns:
            assert solid(f"{column.name} {column.type}: {column.meaning}") in text
        assert {name: p.default for name, p in inspect.signature(method).parameters.items()} == {
            parameter.name: parameter.default for parameter in analysis.parameters
        }
    pd.testing.assert_frame_equal(
        run.breakdown(window="span"), run.analyze("breakdown", window="span")
    )


def solid(text: str) -> str:
    """Return text without the spaces and line ends that filling it moves."""
    return "".join(text.split())


def test_help_tells_the_parameters_and_columns_of_an_analysis(run: traceweave.Run) -> None:
    text = pydoc.render_doc(run.gaps, renderer=pydoc.plaintext)

    assert (
        "gaps(*, per: Literal['device', 'stream'] = 'device', min_gap_ns: int = 1000,"
        " kernel_delay_ns: int = 30000, window: Literal['device', 'host', 'span'] = 'device')"
        " -> 'pandas.DataFrame'\n"
    ) in text
    assert "\n        window='device'  the time window that is measured" in text
    assert "\n            span: from the rank's first op to the end of its last" in text
    assert "\n    Columns (names end in the unit; _ns: integer nanoseconds)\n" in text
    assert "\n        duration_ns  BIGINT: length on the rank's own clock\n" in text
    assert max(map(len, text.splitlines()[3:])) <= 100
    memory = inspect.signature(run.findings).parameters["gpu_memory_bytes"]
    assert (memory.default, memory.annotation) == (None, int | None)


def test_the_analyses_are_listed_as_the_command_line_does(run: traceweave.Run) -> None:
    frame = run.analyses()
    assert list(frame.columns) == ["name", "topic", "answers", "parameters"]
    assert list(frame["name"]) == [analysis.name for analysis in analyses.catalog()]
    assert frame.set_index("name").loc["breakdown"].to_list() == [
        "time", analyses.find("breakdown").answers, "window=device",
    ]  # fmt: skip


def test_an_unknown_analysis_is_an_error(run: traceweave.Run) -> None:
    for name, hint in (
        ("brakedown", "; did you mean 'breakdown'?"),
        ("gap", "; did you mean 'gaps'?"),
        ("exprot", "; did you mean 'export'?"),
        ("xyzzy", "; run.analyses() lists what can be asked"),
    ):
        with pytest.raises(AttributeError) as error:
            getattr(run, name)
        assert str(error.value) == f"a run has no analysis or method {name!r}{hint}"
    with pytest.raises(traceweave.UsageError, match="did you mean 'breakdown'"):
        run.analyze("brakedown")


def test_info_tells_ranks_clocks_sources_and_warnings(run: traceweave.Run) -> None:
    overview = run.info()
    assert [rank.rank for rank in overview.ranks] == [0, 1, 2, 3]
    assert overview.world_size == 4
    assert [clock.rank for clock in overview.clocks] == [0, 1, 2, 3]
    assert [Path(source.path).name for source in overview.sources] == [
        f"rank{rank}.json.gz" for rank in range(4)
    ]
    assert not any(warning.kind == "missing ranks" for warning in overview.warnings)
    assert sum(rank.matched for rank in overview.ranks) >= overview.instances > 0


def test_info_warns_of_ranks_that_are_not_here(tmp_path: Path, fixtures: Path) -> None:
    database = tmp_path / "half.duckdb"
    traceweave.ingest(
        [fixtures / "ddp_gloo_4ranks" / f"rank{rank}.json.gz" for rank in (0, 2)], database
    )
    with traceweave.open(database) as half:
        warnings = half.info().warnings
    assert warnings[0] == Caution(
        "missing ranks", 0, "2 of 4 ranks are not here: waits and stragglers among them are unseen"
    )


def test_the_schema_names_every_public_relation(run: traceweave.Run) -> None:
    public = run.sql(
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = 'main' AND table_name <> 'meta' ORDER BY 1"
    )
    assert sorted(relation.name for relation in run.schema()) == list(public["table_name"])


def test_a_closed_run_says_so(database: Path) -> None:
    run = traceweave.open(database)
    run.close()
    for ask in (lambda: run.sql("SELECT 1"), run.breakdown, run.info, lambda: run.plot.timeline()):
        with pytest.raises(traceweave.QueryError, match="run is closed; open it again"):
            ask()


def test_every_exported_name_exists() -> None:
    assert sorted(traceweave.__all__) == traceweave.__all__
    for name in traceweave.__all__:
        assert getattr(traceweave, name) is not None
    assert set(dir(traceweave)) == set(traceweave.__all__)


def test_the_page_of_the_api_has_every_exported_name() -> None:
    page = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"members: \[(.*)\]", page)
    assert "::: traceweave.errors\n" in page
    assert sorted([*listed[0].split(", "), *errors(), "__version__"]) == traceweave.__all__


def errors() -> list[str]:
    names = (name for name in traceweave.__all__ if name.endswith("Error"))
    return [name for name in names if issubclass(getattr(traceweave, name), Exception)]


HEAVY = ("duckdb", "pandas", "numpy", "pyarrow", "scipy", "jinja2", "rich", "orjson", "click")


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("traceweave", HEAVY),
        (
            "traceweave.api",
            ("pandas", "scipy", "jinja2", "rich", "traceweave.ingestion", "traceweave.replay"),
        ),
    ],
)
def test_what_only_some_need_is_not_imported_for_all(module: str, heavy: tuple[str, ...]) -> None:
    script = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"
