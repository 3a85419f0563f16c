"""traceweave record: lines for torchrun and nsys, printed and not run."""

import shlex

import pytest
from click.testing import CliRunner

from tests.marks import nightly
from traceweave.cli.main import cli


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["record", *arguments])
    assert done.exit_code == 0, done.output
    return done.output.rstrip("\n")


def test_one_node_and_several() -> None:
    assert printed("train.py") == "torchrun --standalone --nproc-per-node 8 train.py"
    assert printed("--nodes", "4", "--processes", "2", "train.py") == (
        "torchrun --nnodes 4 --rdzv-backend c10d --rdzv-endpoint FIRST_NODE:29500"
        " --nproc-per-node 2 train.py"
    )


def test_every_process_has_an_nsys_of_its_own() -> None:
    line = printed("--profiler", "nsys", "--folder", "my traces", "train.py")
    parts = shlex.split(line)
    assert parts[: parts.index("nsys")][-1] == "--no-python"
    assert "--capture-range=cudaProfilerApi" in parts
    assert parts[parts.index("-o") + 1] == "my traces/rank%q{RANK}"
    assert parts[-2:] == ["python", "train.py"]


def test_arguments_of_the_script_stay_its_own() -> None:
    line = printed("--nodes", "2", "train.py", "--nodes", "3", "--name", "a b")
    assert line.endswith("train.py --nodes 3 --name 'a b'")
    assert "--nnodes 2" in line


def test_help_has_the_lines_themselves() -> None:
    text = printed("--help").replace("\\\n", "")
    lines = {" ".join(line.split()) for line in text.splitlines()}
    for profiler in ("torch", "nsys"):
        for nodes in ("1", "8"):
            assert printed("--profiler", profiler, "--nodes", nodes, "train.py") in lines


@nightly
@pytest.mark.parametrize("profiler", ["torch", "nsys"])
@pytest.mark.parametrize("nodes", ["1", "4"])
def test_torchrun_takes_its_lines(profiler: str, nodes: str) -> None:
    run = pytest.importorskip(
        "torch.distributed.run", reason="torch is not installed: it has torchrun"
    )
    line = printed("--profiler", profiler, "--nodes", nodes, "train.py", "--lr", "1")
    options = run.get_args_parser().parse_args(shlex.split(line)[1:])
    assert options.training_script == ("nsys" if profiler == "nsys" else "train.py")
    assert options.training_script_args[-2:] == ["--lr", "1"]
