import re
from importlib import resources

import duckdb
import pytest

from traceweave.analyses import EXPOSED, IDLE, LATE, cause_words, find


@pytest.mark.parametrize(
    ("analysis", "of", "besides"),
    [("gaps", IDLE, {"short"}), ("stragglers", LATE, set()), ("exposed_causes", EXPOSED, set())],
)
def test_every_cause_of_an_analysis_has_words(
    empty_run: duckdb.DuckDBPyConnection, analysis: str, of: str, besides: set[str]
) -> None:
    [column] = [c for c in find(analysis).columns if c.name == "cause"]
    named = set(re.findall(r"'(\w+)'", column.meaning))
    words = cause_words(empty_run, of)
    # gaps shorter than min_gap_ns are no rows of gaps
    assert set(words) == named | besides
    assert len(set(words.values())) == len(words)


def test_every_cause_has_a_colour_of_its_own(empty_run: duckdb.DuckDBPyConnection) -> None:
    """Of idle time, and of communication that no compute hides: one lane shows both."""
    page = resources.files("traceweave.report").joinpath("assets", "colours.css").read_text("utf-8")
    causes = {cause for of in (IDLE, EXPOSED) for cause in cause_words(empty_run, of, "label")}
    colours = re.findall(r"--cause-(\w+): (#\w+);", page)
    # once in the light page, once in the dark one
    assert sorted(cause for cause, _ in colours) == sorted([*causes, *causes])
    assert len({colour for _, colour in colours}) == len(colours)
