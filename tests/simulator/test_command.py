"""`python -m traceweave_simulator` writes a run from the command line."""

import gzip
import json
from pathlib import Path

from click.testing import CliRunner

from traceweave_simulator import Config, Gap, simulate, write_kineto
from traceweave_simulator.__main__ import main


def test_it_writes_one_file_per_rank_and_prints_the_paths(tmp_path: Path) -> None:
    options = ["--ranks", "2", "--steps", "1", "--layers", "2", "--straggler", "1=500000"]
    for form, names in (
        ("torch-2.12", ["rank0.json.gz", "rank1.json.gz"]),
        ("nsys", ["report_rank0.sqlite", "report_rank1.sqlite"]),
    ):
        out = tmp_path / form
        result = CliRunner().invoke(main, [str(out), *options, "--format", form])
        assert result.exit_code == 0
        assert result.output.splitlines() == [str(out / name) for name in names]
        assert sorted(p.name for p in out.iterdir()) == names


def test_the_same_options_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        CliRunner().invoke(main, [str(tmp_path / name), "--ranks", "1", "--layers", "2"])
    first, second = (tmp_path / name / "rank0.json.gz" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_a_slow_data_loader_is_that_of_one_rank_or_of_all(tmp_path: Path) -> None:
    options = ["--ranks", "2", "--steps", "2", "--layers", "2"]
    slow = ["--slow-loader", "3000000", "--slow-loader", "1=2000000"]

    result = CliRunner().invoke(main, [str(tmp_path), *options, *slow])

    assert result.exit_code == 0
    gaps = Gap("data_loading", 3_000_000), Gap("data_loading", 2_000_000, ranks=(1,))
    config = Config(ranks=2, steps=2, layers=2, gaps=gaps)
    write_kineto(simulate(config), tmp_path / "expected")
    for name in ("rank0.json.gz", "rank1.json.gz"):
        written = (tmp_path / name).read_bytes()
        assert written == (tmp_path / "expected" / name).read_bytes()
        text = gzip.decompress(written).decode()
        loads = [event for event in json.loads(text)["traceEvents"] if is_loader(event)]
        assert len(loads) == 2
        least_us = 3000 if name == "rank0.json.gz" else 5000
        assert all(least_us < event["dur"] < least_us + 500 for event in loads)


def is_loader(event: dict[str, object]) -> bool:
    return str(event.get("name")).startswith("enumerate(DataLoader)")


def test_wrong_options_are_refused_in_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path), "--straggler", "two"])
    assert result.exit_code == 2
    assert "write RANK=NUMBER, for example 2=500000" in result.output
    result = CliRunner().invoke(main, [str(tmp_path), "--slow-loader", "2=3ms"])
    assert result.exit_code == 2
    assert "write NS or RANK=NS, for example 3000000 or 2=3000000" in result.output
    for option, value in (("--slow-loader", "8=3000000"), ("--straggler", "8=500000")):
        result = CliRunner().invoke(main, [str(tmp_path), option, value])
        assert result.output == "Error: there is no rank 8; they are 0 to 7.\n"
    result = CliRunner().invoke(main, [str(tmp_path), "--parallelism", "tp", "--group-size", "3"])
    assert result.output == "Error: group_size 3 does not divide 8 ranks.\n"
