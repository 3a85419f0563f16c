"""traceweave record: the lines that record a job. It prints them; they are run where the job is."""

from __future__ import annotations

import shlex

import click

from traceweave.cli.options import OneOf, example

PORT = 29500
NSYS = (
    "nsys profile --trace=cuda,nvtx,osrt --sample=none --cpuctxsw=none --cuda-graph-trace=node"
    " --capture-range=cudaProfilerApi --capture-range-end=stop"
)
"""Switches whose reasons docs/record.md gives."""


def launch(profiler: str, nodes: int, processes: int, folder: str, script: tuple[str, ...]) -> str:
    """Return the line that starts a job of so many nodes and processes on each, with torchrun."""
    if nodes == 1:
        where = "--standalone"
    else:
        where = f"--nnodes {nodes} --rdzv-backend c10d --rdzv-endpoint FIRST_NODE:{PORT}"
    command = f"torchrun {where} --nproc-per-node {processes}"
    if profiler == "torch":
        return f"{command} {shlex.join(script)}"
    # each process under an nsys of its own, which reads the rank from the environment
    report = f"-o {shlex.quote(folder)}/rank%q{{RANK}}"
    return f"{command} --no-python {NSYS} {report} python {shlex.join(script)}"


def _examples() -> str:
    lines = []
    for profiler, what in (("torch", "torch.profiler"), ("nsys", "Nsight Systems")):
        for nodes in (1, 8):
            on = "1 node" if nodes == 1 else f"{nodes} nodes, the same on each"
            line = launch(profiler, nodes, 8, "traces", ("train.py",))
            for switch in (" --rdzv", " --no-python", " --sample", " --capture-range="):
                line = line.replace(switch, f" \\\n     {switch}", 1)
            lines.append(f"\b\n{what}, {on}:\n  {line}")
    return "\n\n".join([example("traceweave record --nodes 4 --profiler nsys train.py"), *lines])


@click.command(
    short_help="Print the lines that record a job.",
    epilog=_examples(),
    context_settings={"allow_interspersed_args": False},  # those of the script are its own
)
@click.option(
    "--profiler", type=OneOf(("torch", "nsys")), default="torch", show_default=True,
    help="What records: torch.profiler inside the processes, or nsys around each of them.",
)  # fmt: skip
@click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="Hosts.")
@click.option(
    "--processes", type=click.IntRange(min=1), default=8, show_default=True,
    help="Processes on each, one per GPU.",
)  # fmt: skip
@click.option("--folder", default="traces", show_default=True, help="Where nsys writes reports.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
def record(profiler: str, nodes: int, processes: int, folder: str, script: tuple[str, ...]) -> None:
    """Print the line that starts a job so that every rank records the same steps; run nothing.

    SCRIPT is the training script with its arguments. It says which steps:

    \b
      with traceweave.capture("traces/", steps=range(10, 13)) as capture:
          for batch in loader:
              train_step(batch)
              capture.step()

    For nsys it says profiler="nsys" as well.
    """
    click.echo(launch(profiler, nodes, processes, folder, script or ("train.py",)))
