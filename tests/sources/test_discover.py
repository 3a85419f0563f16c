"""Finding traces, giving them ranks, telling runs apart: on tiny files of a made-up format."""

import lzma
import os
import shutil
import sqlite3
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from traceweave.errors import InputError, UsageError
from traceweave.sources import kineto
from traceweave.sources.discover import Discovery, discover
from traceweave.sources.find import Broken, PassedOver, find
from traceweave.sources.ranks import RankRules, compile_rank_pattern, counting_number, rank_in_name

from ..tiny import Tiny, write, write_report

UTF_16 = "UTF-16 text; profilers write UTF-8, convert it (iconv -f UTF-16 -t UTF-8 FILE > NEW)"
TAR = "a tar archive; unpack it (mkdir traces && tar -xf FILE -C traces) and give the folder"


def look(*paths: Path, **options: object) -> Discovery:
    return discover(paths, (Tiny(),), Path("unused"), **options)  # type: ignore[arg-type]


def ranks_of(found: Discovery) -> dict[str, list[int | None]]:
    return {s.trace.path.name: [p.rank for p in s.trace.processes] for s in found.sources}


# ---------------------------------------------------------------------------- which files


def test_a_folder_is_searched_and_what_is_no_trace_is_listed_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "er" / "rank1.json.gz", rank=1)
    write(tmp_path / "rank0.notjson", rank=0)
    (tmp_path / "config.json").write_text('{"learning_rate": 0.1}')
    (tmp_path / "train.log").write_text("step 1\n")
    (tmp_path / "utf16.pt.trace.json").write_bytes('{"traceEvents": []}'.encode("utf-16"))
    (tmp_path / "utf16.txt").write_bytes('{"traceEvents": []}'.encode("utf-16-be"))
    (tmp_path / "notes.txt").write_bytes("notes".encode("utf-16-le"))
    (tmp_path / "metrics.jsonl").write_text('{"loss": 1}\n{"loss": 2}\n')
    (tmp_path / "rank4.ndjson").write_text('{"ph":"X","ts":1}\n{"ph":"X","ts":2}\n')
    (tmp_path / "rank3.json.xz").write_bytes(lzma.compress(b"{}"))
    with zipfile.ZipFile(tmp_path / "weights.pt", "w") as weights:
        weights.writestr("archive/data.pkl", b"")
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as logs:
        logs.add(tmp_path / "train.log", "train.log")
    shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path / "deep")
    shutil.make_archive(str(tmp_path / "all"), "gztar", tmp_path / "deep")
    shutil.copy(tmp_path / "all.tar.gz", tmp_path / "all.json.gz")
    (tmp_path / ".hidden.json").write_text("{")

    found = look(tmp_path)

    assert ranks_of(found) == {"rank0.notjson": [0], "rank1.json.gz": [1]}
    assert {(item.path.name, item.reason) for item in found.passed_over} == {
        ("config.json", "JSON, but not a PyTorch profiler trace"),
        ("train.log", "not a trace"),
        ("weights.pt", "a zip archive; unpack it (unzip FILE -d traces) and give the folder"),
        ("logs.tar.gz", TAR),
        ("notes.txt", "not a trace"),
        ("metrics.jsonl", "JSON, but not a PyTorch profiler trace"),
    }
    # what holds traces is missed, whatever it is called
    assert {(item.path.name, item.reason) for item in found.broken} == {
        ("utf16.pt.trace.json", UTF_16),
        ("utf16.txt", UTF_16),
        ("all.zip", "a zip archive; unpack it (unzip FILE -d traces) and give the folder"),
        ("all.tar.gz", TAR),
        ("all.json.gz", TAR),
        ("rank3.json.xz", "xz-compressed; unpack it first (xz -d FILE, an archive: tar -xf FILE)"),
        ("rank4.ndjson", "a JSON value per line; make one document of them"
         " (jq -s '{traceEvents: .}' FILE > NEW)"),
    }  # fmt: skip


def test_a_file_that_is_named_a_trace_but_is_none_is_broken(tmp_path: Path) -> None:
    (tmp_path / "rank1.json").write_text("Killed\n")
    (tmp_path / "rank2.json").touch()
    (tmp_path / "rank3.json.gz").write_bytes(b"\x1f\x8b\x08" + b"\xff" * 40)
    (tmp_path / "rank4.sqlite").write_text("not a database")
    with sqlite3.connect(tmp_path / "rank5.sqlite") as foreign:
        foreign.execute("CREATE TABLE notes (text)")
    foreign.close()
    shutil.copy(tmp_path / "rank5.sqlite", tmp_path / "mlflow.db")

    found = find([tmp_path], (Tiny(),))

    broken = {item.path.name: item.reason for item in found if isinstance(item, Broken)}
    assert broken.pop("rank3.json.gz").startswith("the gzip stream")
    assert broken == {
        "rank1.json": "not JSON, as profilers write it; copy it again, or record again",
        "rank2.json": "is empty; copy it again, or record again",
        "rank4.sqlite": "not a SQLite database; export the report again",
        "rank5.sqlite": "a SQLite database without the tables of an nsys export",
    }
    assert [item for item in found if isinstance(item, PassedOver)] == [
        PassedOver(tmp_path / "mlflow.db", "a SQLite database without the tables of an nsys export")
    ]


def test_loops_of_links_and_files_named_twice_do_no_harm(tmp_path: Path) -> None:
    trace = write(tmp_path / "a" / "rank0.json", rank=0)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to("self")
    (tmp_path / "again.json").symlink_to(trace)
    os.mkfifo(tmp_path / "a" / "pipe.json")
    found = look(tmp_path, trace, tmp_path / "a")
    assert ranks_of(found) == {"rank0.json": [0]}
    assert {item.path.name: item.reason for item in found.passed_over} == {
        "self": "cannot be opened: Too many levels of symbolic links",
        "pipe.json": "not a regular file",
    }


def test_globs_are_expanded_and_a_path_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "node0" / "rank0.json", rank=0)
    write(tmp_path / "node1" / "rank1.json", rank=1)
    assert ranks_of(look(tmp_path / "node*" / "*.json")) == {"rank0.json": [0], "rank1.json": [1]}
    with pytest.raises(InputError, match="no such file or folder, and no file matches it"):
        look(tmp_path / "none*")


def test_nothing_to_read_is_an_error_that_says_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("hello")
    with pytest.raises(InputError, match=r"no trace that can be read \(readme.md: not a trace\)"):
        look(tmp_path)


def test_a_report_is_left_alone_if_its_export_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "run.sqlite", rank=0)
    (tmp_path / "run.nsys-rep").write_bytes(b"binary")
    found = look(tmp_path)
    assert ranks_of(found) == {"run.sqlite": [0]}
    assert found.passed_over == (
        PassedOver(tmp_path / "run.nsys-rep", "its export run.sqlite is read instead"),
    )


def test_a_report_without_nsys_names_the_command_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write(tmp_path / "rank0.json", rank=0)
    (tmp_path / "run.nsys-rep").write_bytes(b"binary")
    found = discover([tmp_path], (Tiny(),), tmp_path / "scratch")
    (broken,) = found.broken
    assert (broken.path.name, broken.format) == ("run.nsys-rep", "nsys")
    assert "nsys export --type=sqlite" in broken.reason


# ---------------------------------------------------------------------------- which rank


@cases
def test_names_that_tell_a_rank_and_names_that_do_not(names: list[str], rank: int | None) -> None:
    assert rank_in_name(names) == rank


@cases
def test_numbers_that_count_files_as_ranks(names: list[str], numbers: list[int] | None) -> None:
    assert counting_number(names) == numbers


def written(folder: Path, files: dict[str, dict[str, Any]]) -> None:
    for name, process in files.items():
        at = process.pop("at", (0, 1))
        write(folder / name, at, **process)


@cases
def test_which_rank_a_file_is_of(
    tmp_path: Path, files: dict[str, dict[str, Any]], ranks: dict[str, list[int]], note: str
) -> None:
    written(tmp_path / "x", files)
    found = look(tmp_path / "x")
    assert ranks_of(found) == ranks
    assert "".join(found.notes) == note


@cases
def test_what_is_of_no_rank_is_refused_with_the_ways_out(
    tmp_path: Path, files: dict[str, dict[str, Any]], reason: str
) -> None:
    written(tmp_path, files)
    with pytest.raises(InputError, match=reason):
        look(tmp_path)


def test_the_user_settles_ranks_by_file_and_by_pattern(tmp_path: Path) -> None:
    write(tmp_path / "a" / "gpu4_x.json")
    write(tmp_path / "a" / "gpu5_x.json", rank=0, rank_source="distributedInfo")

    by_pattern = look(tmp_path, rules=RankRules(pattern=compile_rank_pattern(r"gpu(\d+)")))
    by_file = look(
        tmp_path, rules=RankRules({"a/gpu4_x.json": (7,), str(tmp_path / "a/gpu5_x.json"): (6,)})
    )

    assert ranks_of(by_pattern) == {"gpu4_x.json": [4], "gpu5_x.json": [5]}
    assert by_pattern.notes == (
        "gpu5_x.json: the trace itself says rank 0, --rank-from says 5, which is used",
    )
    assert ranks_of(by_file) == {"gpu5_x.json": [6], "gpu4_x.json": [7]}


def test_traces_that_are_copies_of_another_rank_are_named(tmp_path: Path) -> None:
    """As if a trace were copied to the names of other ranks; the fourth has the same size."""
    one, two, three, four = (tmp_path / f"rank{rank}.json" for rank in range(4))
    for path in (one, two, three):
        write(path)
    write(four, at=(0, 2))
    assert four.stat().st_size == one.stat().st_size
    assert look(tmp_path).notes == (
        f"2 files are copies, byte for byte ({two} of {one}): the same work counts as that of"
        " several ranks",
    )


def test_a_rank_for_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.json")
    with pytest.raises(InputError, match=r"--rank b.json=...: no trace of this name here"):
        look(tmp_path, rules=RankRules({"b.json": (1,)}))
    with pytest.raises(InputError, match=r"--rank-from gpu\(.*\): matches no path here; .*a.json"):
        look(tmp_path, rules=RankRules({}, compile_rank_pattern(r"gpu(\d+)")))


def test_a_pattern_that_cannot_serve_is_refused() -> None:
    with pytest.raises(UsageError, match="has no group"):
        compile_rank_pattern(r"gpu\d+")
    with pytest.raises(UsageError, match="not a regular expression"):
        compile_rank_pattern("(")


def test_a_report_of_several_processes_is_numbered_or_told(tmp_path: Path) -> None:
    write_report(tmp_path / "node.sqlite", [{"pid": 10}, {"pid": 11}])
    told = look(tmp_path, rules=RankRules({"node.sqlite": (4, 5)}))
    assert ranks_of(look(tmp_path)) == {"node.sqlite": [0, 1]}
    assert ranks_of(told) == {"node.sqlite": [4, 5]}
    with pytest.raises(InputError, match="holds 2 processes, --rank gives 1 rank;"):
        look(tmp_path, rules=RankRules({"node.sqlite": (4,)}))


# ---------------------------------------------------------------------------- real traces

NO_RANK = "no rank in the trace or its name; it is taken as rank 0"


@pytest.mark.parametrize(
    ("folder", "ranks"),
    [
        ("megatron_tp8", list(range(8))), ("nanogpt_8xh100", list(range(8))),
        ("torchrec_4", list(range(4))), ("sampled_2of128", [0, 1]), ("cpu_gloo_1of300", [34]),
        ("diff_control", [3]), ("old_inference", [1]), ("no_rank", [0]), ("triton", [0]),
    ],
)  # fmt: skip
def test_real_folders_give_their_ranks(corpus: Path, folder: str, ranks: list[int]) -> None:
    found = discover([corpus / "kineto" / folder], (kineto,), Path("unused"))
    assert [s.trace.processes[0].rank for s in found.sources] == ranks
    expected = 1 if folder in ("no_rank", "triton") else 0
    assert sum(note.endswith(NO_RANK) for note in found.notes) == expected


def test_a_real_utf16_file_is_missed(corpus: Path) -> None:
    path = corpus / "kineto" / "odd" / "utf16_empty.pt.trace.json"
    assert find([path.parent], (kineto,)) == [Broken(path, "kineto", UTF_16)]
