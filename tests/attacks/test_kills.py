"""Whatever writes can be killed at any moment, here and in object storage."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.marks import nightly
from tests.robustness.all_kills import ELSEWHERE, HERE, Rounds, bucket, named_inputs
from traceweave.places import place_of

pytestmark = nightly

KILLS = int(os.environ.get("TRACEWEAVE_KILLS", "1"))
"""How often each of what writes is killed, at a random moment."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    pytest.importorskip("moto.server", reason="moto is not installed")
    with bucket() as found:
        yield found


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory, url: str) -> Mapping[str, object]:
    return named_inputs(tmp_path_factory.mktemp("read"), url)


@pytest.mark.parametrize("name", HERE)
def test_a_kill_leaves_the_old_or_the_new(
    name: str, named: Mapping[str, object], tmp_path: Path
) -> None:
    rounds = Rounds(HERE[name], place_of(tmp_path), named, seed=name)
    ends = {rounds.round().partition(",")[0] for _ in range(KILLS)}
    assert ends <= {"old", "new"} | ({"absent"} if name == "folder" else set())


# what is made in memory and then written at a stroke may leave nothing
@pytest.mark.parametrize("name", ["csv", "json", "parquet", "export", "folder"])
def test_a_kill_while_it_is_written_leaves_the_old_and_a_draft_that_the_next_run_removes(
    name: str, named: Mapping[str, object], tmp_path: Path
) -> None:
    rounds = Rounds(HERE[name], place_of(tmp_path), named, seed=name)
    assert rounds.round(at_once=True) == "old, a draft left"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_and_so_it_does_in_object_storage(name: str, named: Mapping[str, object], url: str) -> None:
    rounds = Rounds(ELSEWHERE[name], place_of(f"{url}/there"), named, seed=name)
    assert {rounds.round().partition(",")[0] for _ in range(KILLS)} <= {"old", "new"}
