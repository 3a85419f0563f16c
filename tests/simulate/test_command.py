"""`python -m traceweave.simulate` writes a run from the command line."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from traceweave.simulate.__main__ import main


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


def test_wrong_options_are_refused_in_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path), "--straggler", "two"])
    assert result.exit_code == 2
    assert "write RANK=NUMBER, for example 2=500000" in result.output
    result = CliRunner().invoke(main, [str(tmp_path), "--parallelism", "tp", "--group-size", "3"])
    assert result.output == "Error: simulate.Config: group_size 3 does not divide 8 ranks.\n"
