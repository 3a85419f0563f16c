"""How kernels' names are read, whoever wrote them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from traceweave.vocabulary import Spelling, spell


@cases
def test_a_name_is_read_without_what_says_nothing(name: str, whole: str) -> None:
    assert spell(name).whole == whole


def test_the_function_is_told_from_its_namespaces_and_arguments() -> None:
    name = "void dpsk::ep::internode::dispatch<false, 8>(int4*, dpsk::ep::internode::SourceMeta*)"
    path = "dpsk::ep::internode::dispatch"
    assert spell(name) == Spelling("dispatch", path, f"{path}<false, 8>")


@given(st.text("aZ_9<>()[]{}:, *&lambdioprt#~-.", max_size=80))
def test_any_name_can_be_read(name: str) -> None:
    spelling = spell(name)
    assert spelling.whole.startswith(spelling.path)
    assert spelling.path.endswith(spelling.own)


@pytest.mark.parametrize("piece", ["(", "()", "<", "[", "_Z9", "::", "(a", "{lambda", " ", "9"])
def test_a_hostile_name_takes_no_time(piece: str) -> None:
    begin = time.process_time()
    spell(piece * 1_000_000)
    spell("_Z" + piece * 4_000 + "a")
    assert time.process_time() - begin < 0.5
