"""Time the analyses on databases of many ranks, and beside HolisticTraceAnalysis.

    python benchmarks/analyses.py make run.duckdb --ranks 64 --gpu-ops 200000
    python benchmarks/analyses.py time run.duckdb [NAME ...]
    python benchmarks/analyses.py flat FOLDER [NAME ...] [--gpu-ops 50000] [--ranks 8,16,...]
    python benchmarks/analyses.py hta [--hta-python PYTHON] [--runs 3] [--steps 36]

`make` simulates eight ranks of DDP training (a straggler, calls that synchronize, a slow data
loader), ingests them, and repeats the rows: along the time axis until a rank has enough GPU ops,
and for further ranks until there are enough of them. The times of every repetition of a rank are
moved a little, groups and matched collectives span all ranks. So the rows are those of an ingested
run, host ops, launches and arguments included, and a large database takes minutes, not hours.

`time` runs every analysis in a fresh process, reads all its rows, and reports the time that passed
and the CPU time of all threads, which other work on the machine moves least. `flat` does the same
for a growing number of ranks, per GPU op, and with `--plot FILE.svg` draws it (needs matplotlib).
`hta` compares with HTA 0.5.0 on eight ranks, trace loaded and database ingested beforehand: only
the analyses are timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb

import traceweave
from ingest_vs_hta import prepare_peers
from traceweave.store.draft import drafting
from traceweave.store.schema import source_tables
from traceweave_simulator import Config, Gap, simulate, write_kineto

BASE = Config(
    ranks=8,
    hosts=2,
    steps=36,
    layers=12,
    straggler={3: 200_000},
    gaps=(Gap("sync", 150_000), Gap("data_loading", 400_000, ranks=(5,))),
    clock_offset_ns=1_000_000_000,
    kernel_spacing_ns=1_500,
)
"""What is repeated: 12 708 GPU ops and 39 816 host ops per rank."""

STANDARD = (
    "breakdown",
    "pop",
    "kernel_types",
    "gaps",
    "tails",
    "stragglers",
    "kernels",
    "host_ops",
    "data_loading",
    "steps",
    "launches",
    "syncs",
)

ASKED_FIRST = ("breakdown", "gaps", "tails", "stragglers", "kernels", "health")

SHIFTED = {
    "rank": "rank + $block * {ranks}",
    "source_id": "source_id + $block * {sources}",
    **{
        name: name + " + ($block * {sources})::BIGINT * 1000000000 + lap * {events}"
        for name in (
            "op_id",
            "parent_id",
            "launch_op_id",
            "gpu_op_id",
            "host_op_id",
            "call_id",
            "from_op_id",
            "to_op_id",
        )
    },
    **{
        name: name + " + lap * {period} + hash(lap, $block) % 20000"
        for name in (
            "start_local_ns",
            "launch_start_local_ns",
            "device_start_local_ns",
            "device_end_local_ns",
            "at_local_ns",
        )
    },
    "collective_id": "collective_id + lap * {collectives}",
    "step": "step + lap * {steps}",
    "seq": "seq + lap * {collectives}",
    "correlation": "correlation + lap * {events}",
    "sequence": "sequence + lap * {events}",
}
"""Column -> its value in a repetition: `lap` on the time axis, `$block` over the ranks."""

ONCE_PER_RANK = ("sources", "base.rank_sources", "clocks")

UNIQUE = {
    "op_id": "SELECT op_id AS id FROM base.gpu_ops UNION ALL SELECT op_id FROM base.host_ops",
    "call_id": "SELECT call_id AS id FROM base.collective_calls",
    "collective_id of a rank": """
        SELECT (calls.rank, matches.collective_id, calls.op) AS id
        FROM base.collective_calls AS calls JOIN base.matches USING (call_id)
        WHERE matches.collective_id IS NOT NULL
    """,
}
"""What must not repeat, and the query for it."""

TIME_WITH_TRACEWEAVE = """
import resource, sys, time
import numpy, pyarrow  # imports are counted on neither side
import traceweave
run = traceweave.open(sys.argv[1])
begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
rows = sum(batch.num_rows for batch in run.stream_analysis(sys.argv[2]))
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(time.perf_counter() - begin, cpu, after.ru_maxrss, rows)
"""

TIME_WITH_HTA = """
import json, logging, sys, time, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_dir=sys.argv[1])
questions = {
    "breakdown": lambda: trace.get_temporal_breakdown(visualize=False),
    "kernel_types": lambda: trace.get_gpu_kernel_breakdown(visualize=False),
    "idle_streams": lambda: trace.get_idle_time_breakdown(
        ranks=list(trace.t.traces), visualize=False
    ),
    "launches": lambda: trace.get_cuda_kernel_launch_stats(
        ranks=list(trace.t.traces), visualize=False
    ),
    "queue_depth": lambda: trace.get_queue_length_summary(ranks=list(trace.t.traces)),
}
seconds = {}
for name, ask in questions.items():
    begin = time.process_time()
    ask()
    seconds[name] = time.process_time() - begin
print(json.dumps(seconds))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("make")
    command.add_argument("database", type=Path)
    command.add_argument("--ranks", type=int, default=64)
    command.add_argument("--gpu-ops", type=int, default=200_000, help="per rank, at least")
    command.set_defaults(run=lambda o: make(o.database, o.ranks, o.gpu_ops))
    command = commands.add_parser("time")
    command.add_argument("database", type=Path)
    command.add_argument("names", nargs="*", default=STANDARD)
    command.set_defaults(run=lambda o: print_times(o.database, o.names))
    command = commands.add_parser("flat")
    command.add_argument("folder", type=Path, help="where the databases are made and kept")
    command.add_argument("names", nargs="*", default=ASKED_FIRST)
    command.add_argument("--gpu-ops", type=int, default=50_000)
    command.add_argument("--ranks", default="8,16,32,64,128,256")
    command.add_argument("--plot", type=Path)
    command.set_defaults(
        run=lambda o: print_flatness(
            o.folder, o.names, o.gpu_ops, [int(n) for n in o.ranks.split(",")], o.plot
        )
    )
    command = commands.add_parser("hta")
    command.add_argument("--hta-python", type=Path)
    command.add_argument("--runs", type=int, default=3)
    command.add_argument("--steps", type=int, default=BASE.steps, help="353 GPU ops per rank each")
    command.set_defaults(
        run=lambda o: print_beside_hta(o.hta_python or prepare_peers(), o.runs, o.steps)
    )
    options = parser.parse_args()
    options.run(options)


def make(database: Path, ranks: int, gpu_ops: int) -> None:
    """Write a database of `ranks` ranks (a multiple of 8) with `gpu_ops` GPU ops each, or more."""
    if ranks % BASE.ranks:
        raise SystemExit(f"--ranks must be a multiple of {BASE.ranks}")
    with tempfile.TemporaryDirectory(dir=database.parent) as folder:
        base = Path(folder) / "base.duckdb"
        write_kineto(simulate(BASE), Path(folder) / "traces")
        traceweave.ingest([Path(folder) / "traces"], base)
        with drafting(database, jobs=2) as draft:
            draft.con.execute("ATTACH ? AS one (READ_ONLY)", [str(base)])
            repeat(draft.con, ranks // BASE.ranks, gpu_ops)
            draft.con.execute("DETACH one")
            refuse_repeated_ids(draft.con)


def repeat(con: duckdb.DuckDBPyConnection, blocks: int, gpu_ops: int) -> None:
    """Fill the tables of `con` with repetitions of the rows of the database attached as `one`."""
    facts = con.execute("""
        SELECT
            (SELECT count(DISTINCT rank) FROM one.base.rank_sources),
            (SELECT max(source_id) + 1 FROM one.sources),
            (SELECT max(op_id % 1000000000) + 1 FROM (
                SELECT op_id FROM one.base.host_ops UNION ALL SELECT op_id FROM one.base.gpu_ops
            )),
            (SELECT max(last_local_ns - first_local_ns) + 1000000 FROM one.base.rank_sources),
            (SELECT max(collective_id) + 1 FROM one.base.matches),
            (SELECT max(step) - min(step) + 1 FROM one.base.steps),
            (SELECT count(*) FROM one.base.gpu_ops)
    """).fetchone()
    assert facts is not None
    names = ("ranks", "sources", "events", "period", "collectives", "steps", "gpu_ops")
    known = dict(zip(names, facts, strict=True))
    laps = -(-gpu_ops * known["ranks"] // known["gpu_ops"])
    con.execute("INSERT INTO meta BY NAME SELECT * FROM one.meta")
    con.execute(
        "INSERT INTO groups BY NAME SELECT * REPLACE ($1 AS size, range(0, $1)::INTEGER[] AS ranks)"
        " FROM one.groups",
        [blocks * known["ranks"]],
    )
    per_lap = {*source_tables(con), "base.matches"} - set(ONCE_PER_RANK)
    for block in range(blocks):
        for table in ONCE_PER_RANK:
            insert(con, table, known, block, 1)
        for table in sorted(per_lap):
            insert(con, table, known, block, laps)
    con.execute(
        "UPDATE base.rank_sources SET world_size = $1, last_local_ns = last_local_ns + $2",
        [blocks * known["ranks"], (laps - 1) * known["period"]],
    )


def refuse_repeated_ids(con: duckdb.DuckDBPyConnection) -> None:
    """Raise SystemExit where ids repeat: joins would find more rows than there are."""
    for what, ids in UNIQUE.items():
        # a part at a time: the ids of all would fill the memory
        for part in range(8):
            query = f"SELECT count(*) - count(DISTINCT id) FROM ({ids}) WHERE hash(id) % 8 = {part}"
            repeated = con.execute(query).fetchone()
            if repeated != (0,):
                raise SystemExit(f"make: {repeated} rows repeat a {what}: of no use")


def insert(
    con: duckdb.DuckDBPyConnection, table: str, known: dict[str, int], block: int, laps: int
) -> None:
    """Insert the rows of one table for eight more ranks, `laps` times along the time axis."""
    described = con.execute(f"DESCRIBE one.{table}").fetchall()
    shifted = ", ".join(
        f"CAST({SHIFTED[name].format(**known)} AS {type_}) AS {name}"
        for name, type_, *_ in described
        if name in SHIFTED
    )
    con.execute(
        f"INSERT INTO {table} BY NAME SELECT * EXCLUDE (lap) REPLACE ({shifted})"
        f" FROM one.{table} CROSS JOIN range($laps) AS laps(lap)"
        " WHERE $block >= 0",
        {"block": block, "laps": laps},
    )


def measure(database: Path, name: str) -> tuple[float, float, float, int]:
    """Return the seconds that passed, CPU seconds, peak MB and rows of one analysis."""
    line = output(Path(sys.executable), TIME_WITH_TRACEWEAVE, database, name)
    passed, cpu, kilobytes, rows = line.split()
    return float(passed), float(cpu), int(kilobytes) / 1024, int(rows)


def print_times(database: Path, names: list[str]) -> None:
    """Print one row per analysis: seconds, CPU seconds, memory, rows."""
    print("| analysis | s | CPU s | peak MB | rows |\n|---|---:|---:|---:|---:|")
    for name in names:
        passed, cpu, megabytes, rows = measure(database, name)
        print(f"| {name} | {passed:.1f} | {cpu:.1f} | {megabytes:.0f} | {rows:,} |", flush=True)


def print_flatness(
    folder: Path, names: list[str], gpu_ops: int, ranks: list[int], plot: Path | None
) -> None:
    """Print the CPU time per GPU op, in us, of every analysis for every number of ranks."""
    databases = [folder / f"{count}x{gpu_ops}.duckdb" for count in ranks]
    for count, database in zip(ranks, databases, strict=True):
        if not database.exists():
            make(database, count, gpu_ops)
    sizes = [gpu_ops_of(database) for database in databases]
    print(f"| CPU us per GPU op | {' | '.join(f'{count} ranks' for count in ranks)} |")
    print("|---|" + "---:|" * len(ranks))
    costs = {}
    for name in names:
        costs[name] = [
            measure(database, name)[1] / size * 1e6
            for database, size in zip(databases, sizes, strict=True)
        ]
        print(f"| {name} | {' | '.join(f'{cost:.2f}' for cost in costs[name])} |", flush=True)
    if plot is not None:
        draw(costs, ranks, plot)


def draw(costs: dict[str, list[float]], ranks: list[int], file: Path) -> None:
    """Draw the costs per GPU op over the number of ranks."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    # the same bytes for the same costs
    mpl.rcParams |= {"svg.hashsalt": "traceweave", "font.size": 9, "svg.fonttype": "none"}
    figure, axes = plt.subplots(figsize=(7.5, 3.2))
    for name, cost in costs.items():
        (line,) = axes.plot(ranks, cost, marker="o", markersize=3)
        axes.annotate(
            name,
            (ranks[-1], cost[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=line.get_color(),
        )
    axes.set_yscale("log")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(count) for count in ranks])
    axes.set(xlabel="ranks", ylabel="CPU us per GPU op")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None}, bbox_inches="tight")


def gpu_ops_of(database: Path) -> int:
    """Return the number of GPU ops in a database."""
    with traceweave.open(database) as run:
        return int(run.sql("SELECT count(*) AS n FROM base.gpu_ops")["n"][0])


def print_beside_hta(hta_python: Path, runs: int, steps: int) -> None:
    """Print HTA's CPU time beside ours for the analyses that both have, median of `runs`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        traces, database = folder / "traces", folder / "run.duckdb"
        write_kineto(simulate(replace(BASE, steps=steps)), traces)
        traceweave.ingest([traces], database)
        theirs = [json.loads(output(hta_python, TIME_WITH_HTA, traces)) for _ in range(runs)]
        print("| analysis | HTA 0.5.0, CPU s | traceweave, CPU s | ratio |\n|---|---:|---:|---:|")
        for analysis in theirs[0]:
            slow = statistics.median(times[analysis] for times in theirs)
            fast = statistics.median(measure(database, analysis)[1] for _ in range(runs))
            print(f"| {analysis} | {slow:.2f} | {fast:.2f} | {slow / fast:.1f} |", flush=True)


def output(python: Path, script: str, *arguments: object) -> str:
    """Run `script` in a fresh process and return the last line that it prints."""
    done = subprocess.run(
        [python, "-c", script, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main()
