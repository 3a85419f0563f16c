"""Dumps of torch's flight recorder as a source: plain values or nothing, whatever a file holds."""

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.cases import cases
from tests.flight_dumps import NOW, dump, entry, written
from tests.marks import at_once, first_at_once, nightly
from traceweave.errors import InputError
from traceweave.sources.flight_recorder import dump as dump_module
from traceweave.sources.flight_recorder import recognize
from traceweave.sources.flight_recorder.dump import parse_dump, read_dump


def test_json_says_what_a_pickle_says(tmp_path: Path) -> None:
    from_pickle = read_dump(written(tmp_path / "rank_0", dump(entry())))
    zeros = {"time_discovered_started_ns": 0, "time_discovered_completed_ns": 0}
    status = {"1": {"last_enqueued_collective": "5", "last_started_collective": "-1",
                    "last_completed_collective": "4"}}  # fmt: skip
    as_json = dump(entry(**zeros), pg_status=status)
    assert read_dump(written(tmp_path / "rank_0.json", as_json)) == from_pickle
    [group] = from_pickle.groups
    assert list(group.values()) == ["3", "mesh_tp", [0, 1], 5, -1, 4]
    [noted] = from_pickle.entries
    assert (noted["group_name"], noted["group_desc"], noted["seq"]) == ("3", "mesh_tp", 5)
    assert (noted["timeout_ns"], noted["completed_local_ns"]) == (600 * 10**9, None)


def test_the_first_version_has_one_number_and_no_names_of_groups() -> None:
    old = {"version": "1.4", "entries": [
        {"id": 3, "pg_id": 2, "seq_id": 9, "profiling_name": "nccl:send 1->0", "state": "started",
         "time_created_ns": NOW, "duration_ms": 1.5, "retired": False}]}  # fmt: skip
    [noted] = parse_dump(old).entries
    assert (noted["record_id"], noted["group_name"], noted["seq"]) == (3, "2", 9)
    assert (noted["is_p2p"], noted["peer_place"], noted["duration_ns"]) == (True, 0, 1_500_000)


def test_ids_of_groups_without_entries_follow_from_their_order() -> None:
    names = ("0", "35", "112")
    config = {name: {"name": name, "desc": "", "ranks": "[0]"} for name in names}
    status = {
        number: {"last_enqueued_collective": int(number), "last_completed_collective": 1}
        for number in ("17", "0", "5")
    }
    found = parse_dump(dump(pg_config=config, pg_status=status)).groups
    assert {g["group_name"]: g["last_enqueued"] for g in found} == {"0": 0, "35": 5, "112": 17}
    # an entry says otherwise: then only what entries say is known
    other = entry(pg_id=17, process_group=("35", ""))
    found = parse_dump(dump(other, pg_config=config, pg_status=status)).groups
    assert {g["group_name"]: g["last_enqueued"] for g in found} == {
        "0": None,
        "35": 17,
        "112": None,
    }


class Calls:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch ran",)


def memo_bomb() -> bytes:
    """A list that holds itself a million times a million times."""
    inner = [1] * 4000
    return pickle.dumps(dump(*[entry(input_sizes=[inner] * 4000)] * 4000), 2)


HOSTILE = {
    "calls": (pickle.dumps(dump(entry(name=Calls())), 2), "opcode GLOBAL"),
    "imports": (b"\x80\x04\x8c\x02os\x8c\x06system\x93." + b"pg_config entries", "STACK_GLOBAL"),
    "elsewhere": (b"\x80\x02X\x09\x00\x00\x00pg_configQ.entries", "opcode BINPERSID"),
    "extension": (b"\x80\x02\x82\x01.pg_config entries", "opcode EXT1"),
    "memo bomb": (memo_bomb(), "longer than any recorder's"),
    "far memo": (b"\x80\x02]r\xff\xff\xff\xff.pg_config entries", "more memory"),
    "cut off": (pickle.dumps(dump(entry()), 2)[:-40], "damaged pickle"),
    "unhashable": (b"\x80\x02}]Ns.pg_config entries", "damaged pickle"),
    "no dump": (pickle.dumps(["pg_config", "entries"], 2), "not a flight recorder dump"),
    "odd entries": (pickle.dumps({"pg_config": {}, "entries": 3}, 2), "no list"),
    "cut JSON": (json.dumps(dump(entry())).encode()[:-9], "damaged JSON"),
}


@first_at_once(2)
@pytest.mark.parametrize("name", at_once(HOSTILE, *HOSTILE.keys() - {"memo bomb"}))
def test_a_hostile_dump_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, reason = HOSTILE[name]
    folder = tmp_path / "in"
    folder.mkdir()
    written(folder / "_dump_0", dump(entry()))
    (folder / "_dump_1").write_bytes(data)
    assert recognize(folder / "_dump_1", data[: 256 << 10])
    result = traceweave.ingest(folder, tmp_path / "run.duckdb")
    [refused] = [source for source in result.sources if source.status == "failed"]
    assert (refused.path.name, refused.format) == ("_dump_1", "flight_recorder")
    assert reason in (refused.message or "")
    assert "\n" not in (refused.message or "")
    assert not (tmp_path / "ran").exists()


def test_a_dump_of_a_gigabyte_is_refused_unread(tmp_path: Path) -> None:
    path = written(tmp_path / "_dump_0", dump(entry()))
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    with pytest.raises(InputError, match="no flight recorder dump is that large"):
        read_dump(path)


@nightly
def test_values_are_counted_before_they_are_made(tmp_path: Path) -> None:
    path = tmp_path / "_dump_0"
    path.write_bytes(b"\x80\x02" + b"]" * 5_000_001 + b".")
    with pytest.raises(InputError, match="more than 5,000,000 values"):
        read_dump(path)
    path.write_bytes(b'{"entries":[' + b"[]," * 2_500_001 + b"0]}")
    with pytest.raises(InputError, match="more than 5,000,000 values"):
        read_dump(path)


@pytest.mark.parametrize(
    "content",
    [
        dump(pg_config={"3": {"ranks": "x" * 20_000_001}}),
        dump(*[entry(input_sizes=[*[[]] * 300_000, 1])] * 70),
    ],
    ids=["members", "sizes"],
)
def test_what_references_repeat_is_counted_before_it_is_read(content: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="longer than any recorder's"):
        parse_dump(content)


def test_entries_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_module, "MOST_ENTRIES", 1)
    assert len(parse_dump(dump(entry())).entries) == 1
    with pytest.raises(InputError, match="more than 1 entries"):
        parse_dump(dump(entry(), entry()))


def test_what_is_no_operation_is_counted(tmp_path: Path) -> None:
    written(tmp_path / "_dump_0", dump(entry(), entry(profiling_name=None), 5))  # type: ignore[arg-type]
    result = traceweave.ingest(tmp_path, tmp_path / "run.duckdb")
    [source] = result.sources
    assert (source.events_read, source.events_stored) == (3, 1)
    with traceweave.open(result.database) as run:
        assert run.issues().set_index("kind").loc["no operation", "events"] == 2


@first_at_once()
@cases
def test_the_name_says_the_rank(names: list[str], ranks: list[int], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        written(tmp_path / "in" / name, dump(entry()))
    result = traceweave.ingest(tmp_path / "in", tmp_path / "run.duckdb")
    assert [source.ranks for source in result.sources] == [(rank,) for rank in ranks]


@first_at_once()
@pytest.mark.parametrize("names", [["first", "second"], ["dump_node1", "dump_node2"]])
def test_where_it_does_not_the_user_is_asked(names: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in names:
        written(folder / name, dump(entry()))
    with pytest.raises(InputError, match=f"no rank in {names[0]}, {names[1]}.*--rank"):
        traceweave.ingest(folder, tmp_path / "run.duckdb")
    given = dict(zip(names, (4, 2), strict=True))
    result = traceweave.ingest(folder, tmp_path / "run.duckdb", ranks=given)
    assert sorted(source.ranks for source in result.sources) == [(2,), (4,)]


def recorded(fixtures: Path, name: str, folder: Path) -> Path:
    """A folder with the traces of a recorded run and its dumps."""
    folder.mkdir()
    for of in (fixtures / name, fixtures / "flight_recorder" / name):
        for file in of.iterdir():
            shutil.copy(file, folder)
    return folder


@first_at_once()
@cases
def test_dumps_beside_traces_tell_group_and_number(
    name: str, groups: list[list[int]], fixtures: Path, tmp_path: Path
) -> None:
    result = traceweave.ingest(recorded(fixtures, name, tmp_path / "in"), tmp_path / "run.duckdb")
    assert {source.format for source in result.sources} == {"kineto", "flight_recorder"}
    with traceweave.open(result.database) as run:
        found = run.sql("SELECT ranks FROM groups ORDER BY ranks")["ranks"].map(list).tolist()
        calls = run.sql("SELECT match, rank, seq IS NULL AS unnumbered FROM collectives")
        joined = run.sql(
            "SELECT f.rank, f.record_id FROM flight_calls AS f JOIN collectives AS k USING"
            " (call_id) ORDER BY f.rank, k.start_local_ns"
        )
        records = run.sql("SELECT rank, record_id FROM flight_calls ORDER BY ALL")
        windows = run.ranks()["windows"]
    assert found == groups
    assert set(calls["match"]) == {"seq"}
    assert not calls["unnumbered"].any()
    # tests/fixtures/README.md: a dump's last entries are the calls of the trace, in order
    for rank in range(4):
        mine = joined.loc[joined["rank"] == rank, "record_id"].tolist()
        assert len(mine) == (calls["rank"] == rank).sum()
        assert mine == records.loc[records["rank"] == rank, "record_id"].tolist()[-len(mine) :]
    assert list(windows) == [1] * 4


@nightly
def test_a_rank_without_a_dump_leaves_the_calls_as_they_were(
    fixtures: Path, tmp_path: Path
) -> None:
    name = "slow_rank_2x2_gloo"
    folder = recorded(fixtures, name, tmp_path / "in")
    (folder / "_dump_3").unlink()
    result = traceweave.ingest(folder, tmp_path / "run.duckdb")
    alone = traceweave.ingest(fixtures / name, tmp_path / "alone.duckdb")
    assert any("0 of 64 collectives" in note for note in result.notes)
    assert result.weave == alone.weave


# what was wrong: where two groups are asked at once, calls were given each other's groups and
# numbers, and matched by them, though the threads that ran them tell
def test_records_by_which_a_thread_serves_two_groups_are_left_out(
    fixtures: Path, tmp_path: Path
) -> None:
    name = "at_once_gloo"
    result = traceweave.ingest(recorded(fixtures, name, tmp_path / "in"), tmp_path / "run.duckdb")
    assert any("0 of 128 collectives" in note for note in result.notes)
    assert result.weave == traceweave.ingest(fixtures / name, tmp_path / "alone.duckdb").weave
    with traceweave.open(result.database) as run:
        served = run.sql(
            "SELECT count(DISTINCT group_id) AS n FROM collectives GROUP BY rank, stream"
        )
    assert served["n"].tolist() == [1] * 16


def test_two_dumps_of_a_rank_are_two_runs(tmp_path: Path) -> None:
    for folder, start in (("one", NOW), ("two", NOW)):
        (tmp_path / "in" / folder).mkdir(parents=True)
        written(tmp_path / "in" / folder / "_dump_0", dump(entry(time_created_ns=start)))
    with pytest.raises(InputError, match="2 runs lie here"):
        traceweave.ingest(tmp_path / "in", tmp_path / "run.duckdb")
