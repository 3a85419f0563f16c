"""Write a simulated run: `python -m traceweave_simulator OUT --ranks 4 --straggler 2=500000`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from traceweave_simulator import Config, simulate, write_kineto, write_nsys
from traceweave_simulator.config import PARALLELISMS, Gap, Parallelism
from traceweave_simulator.errors import SimulationError


def _per_rank(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[int, int]:
    pairs = [value.partition("=") for value in values]
    try:
        return {int(rank): int(amount) for rank, _, amount in pairs}
    except ValueError as e:
        raise click.BadParameter("write RANK=NUMBER, for example 2=500000") from e


def _slow_loader(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[Gap, ...]:
    pairs = [value.rpartition("=") for value in values]
    try:
        return tuple(
            Gap("data_loading", int(ns), ranks=(int(rank),) if equals else None)
            for rank, equals, ns in pairs
        )
    except ValueError as e:
        raise click.BadParameter("write NS or RANK=NS, for example 3000000 or 2=3000000") from e


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--ranks", default=8, show_default=True, help="Number of ranks.")
@click.option("--hosts", default=1, show_default=True, help="Hosts they are dealt to.")
@click.option("--steps", default=4, show_default=True, help="Training steps.")
@click.option("--layers", default=12, show_default=True, help="Layers of the model.")
@click.option("--parallelism", type=click.Choice(PARALLELISMS), default="ddp", show_default=True)
@click.option("--group-size", type=int, help="Tensor-parallel ranks or pipeline stages.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same run.")
@click.option("--clock-offset-ns", default=0, help="Largest clock offset.")
@click.option("--clock-drift-ppm", default=0.0, help="Largest clock drift.")
@click.option("--end-jitter-ns", default=0, help="Largest delay of a collective's end on a rank.")
@click.option("--straggler", multiple=True, callback=_per_rank, help="RANK=NS more compute a step.")
@click.option(
    "--slow-loader",
    "gaps",
    multiple=True,
    metavar="[RANK=]NS",
    callback=_slow_loader,
    help="NS more for the data loader in every step, of one rank or of all.",
)
@click.option("--window-cut", multiple=True, callback=_per_rank, help="RANK=COLLECTIVES lost.")
@click.option("--extra-host-ops", default=0, help="Further host operators per kernel launch.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["torch-2.12", "torch-2.0", "nsys"]),
    default="torch-2.12",
    show_default=True,
)
def main(
    out: Path,
    parallelism: Parallelism,
    form: Literal["torch-2.12", "torch-2.0", "nsys"],
    **options: object,
) -> None:
    """Simulate a training run and write one trace per rank into OUT.

    \b
    Example:
      python -m traceweave_simulator traces --ranks 4 --straggler 2=500000
      python -m traceweave_simulator traces --ranks 4 --slow-loader 3000000
    """
    try:
        run = simulate(Config(parallelism=parallelism, **options))  # type: ignore[arg-type]
        paths = write_nsys(run, out) if form == "nsys" else write_kineto(run, out, layout=form)
    except SimulationError as e:
        raise click.ClickException(str(e)) from e
    for path in paths:
        click.echo(path)


if __name__ == "__main__":
    main()
