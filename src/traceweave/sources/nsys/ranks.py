"""Evidence in an export for the global rank of its processes, strongest first.

Payloads of NCCL's communicator initialization, MPI_RANKS, the launcher's environment, threads named
'MPI Rank N', and at last the order of devices inside one report. The environment is read through a
list of names; nothing else of it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import orjson

from traceweave.sources.nsys.event_tables import NVTX, PAYLOAD_COLUMN
from traceweave.sources.nsys.export import Export
from traceweave.sources.nsys.payload import Schemas, decode_one, read_schemas
from traceweave.sources.nsys.processes import PROCESS_MASK, Candidate, mpi_ranks
from traceweave.sources.values import digits, mapping

# (rank, world size) as torchrun, Slurm, Open MPI, PMI, PMIx and MVAPICH2 name them
_RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", ""),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
)
_NODE_VARIABLES = ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID")
_ALLOWED = frozenset(
    [name for pair in _RANK_VARIABLES for name in pair if name] + list(_NODE_VARIABLES)
)
_ASSIGNMENT = re.compile(r'([A-Z0-9_]+)="?(\d{1,9})"?')
_MPI_THREAD = re.compile(r"MPI Rank (\d{1,9})")
_CAPTURED = "PROCESS_0:ENVIRONMENT_VARIABLE"


class RankEvidence(NamedTuple):
    """What the export says about one process's rank."""

    rank: int | None = None
    source: str | None = None
    world_size: int | None = None


def find_ranks(
    export: Export, candidates: list[Candidate]
) -> tuple[dict[int, RankEvidence], list[str]]:
    """Return the evidence for every candidate, and what contradicted it: the first to speak for a
    process wins, later ones may only contradict, or add a world size. A lone process without any
    has no rank.
    """
    environment = read_environment(export)
    known: dict[int, RankEvidence] = {}
    notes: list[str] = []
    for global_pid, evidence in _evidence(export, candidates, environment):
        first = known.setdefault(global_pid, evidence)
        if first.rank != evidence.rank:
            notes.append(
                f"{first.source} says rank {first.rank}, {evidence.source} says rank"
                f" {evidence.rank}: the former is used; --rank settles it"
            )
        elif first.world_size is None:
            known[global_pid] = first._replace(world_size=evidence.world_size)
    if len(candidates) > 1 and not known:
        return _from_order(candidates, environment), []
    return known, notes


def _evidence(
    export: Export, candidates: list[Candidate], environment: Mapping[str, int]
) -> Iterator[tuple[int, RankEvidence]]:
    """Yield what speaks for the rank of a candidate, the strongest first."""
    # it is the environment of the process nsys launched: right for `srun nsys profile python`;
    # under `nsys profile torchrun` it is the launcher's and says nothing of its children
    told = _from_environment(environment) if len(candidates) == 1 else None
    found = [
        (g, evidence)
        for g, evidence in _from_nccl(export).items()
        if not (told and _is_part(evidence, told))
    ]
    size = _mpi_world(export)
    found += [(g, RankEvidence(n, "MPI_RANKS", size)) for g, n in mpi_ranks(export).items()]
    found += [(c.global_pid, told) for c in candidates if told]
    found += [
        (g, RankEvidence(n, "thread name 'MPI Rank'"))
        for g, n in _from_thread_names(export).items()
    ]
    processes = {c.global_pid for c in candidates}
    return ((g, evidence) for g, evidence in found if g in processes)


def read_environment(export: Export) -> dict[str, int]:
    """Return the allow-listed variables of the launched process that hold whole numbers."""
    assignments = [v for n, v in export.pairs("META_DATA_CAPTURE") if n == _CAPTURED]
    for name, value in export.pairs("TARGET_INFO_SYSTEM_ENV"):
        if name == "DeviceEnvironment":
            assignments += re.split(r"[;\n]", value)
    found: dict[str, int] = {}
    for assignment in assignments:
        match = _ASSIGNMENT.fullmatch(assignment.strip())
        if match and match[1] in _ALLOWED:
            found.setdefault(match[1], int(match[2]))
    return found


def _from_environment(environment: Mapping[str, int]) -> RankEvidence | None:
    for rank_name, size_name in _RANK_VARIABLES:
        rank, size = environment.get(rank_name), environment.get(size_name)
        if rank is not None and (size is None or rank < size):
            return RankEvidence(rank, f"environment {rank_name}", size)
    return None


def _is_part(communicator: RankEvidence, told: RankEvidence) -> bool:
    """Whether the largest communicator has not all ranks: a program may never call all of them."""
    size, rank = communicator.world_size or 0, told.rank or 0
    return size <= rank or size < (told.world_size or 0)


def _from_nccl(export: Export) -> dict[int, RankEvidence]:
    """Return each process's rank in the largest communicator that it joined."""
    best: dict[int, RankEvidence] = {}
    for global_pid, fields in _communicators(export):
        rank, size = fields.get("Rank"), fields.get("No. of ranks")
        if rank is None or size is None or not 0 <= rank < size:
            continue
        known = best.get(global_pid)
        if known is None or size > (known.world_size or 0):
            best[global_pid] = RankEvidence(rank, "NCCL communicator", size)
    # communicators of one rank each say nothing of the world
    return {g: e for g, e in best.items() if (e.world_size or 0) > 1}


def _communicators(export: Export) -> list[tuple[int, dict[str, int]]]:
    columns = (PAYLOAD_COLUMN, "jsonText")
    blob, text = (column if export.has(NVTX.name, column) else "NULL" for column in columns)
    if blob == text or not export.has(NVTX.name, "globalTid", "textId"):
        return []
    rows = export.rows(
        f"SELECT globalTid & {PROCESS_MASK}, {blob}, {text} FROM {NVTX.name}"
        " WHERE textId IN (SELECT id FROM StringIds WHERE value GLOB 'ncclComm*')"
        f" AND ({blob} IS NOT NULL OR {text} IS NOT NULL)"
    )
    schemas = read_schemas(export)
    return [(g, _fields(binary, json_text, schemas)) for g, binary, json_text in rows]


def _fields(binary: object, text: object, schemas: Schemas) -> dict[str, int]:
    if isinstance(text, str):
        with suppress(orjson.JSONDecodeError):
            fields = {key: digits(value) for key, value in mapping(orjson.loads(text)).items()}
            return {key: number for key, number in fields.items() if number is not None}
    return decode_one(binary, schemas) if isinstance(binary, bytes) else {}


def _mpi_world(export: Export) -> int | None:
    """Return the size of MPI_COMM_WORLD: of the communicators without a parent."""
    if not export.has("MPI_COMMUNICATORS", "parentHandle", "size"):
        return None
    rows = export.rows("SELECT DISTINCT size FROM MPI_COMMUNICATORS WHERE parentHandle = 0")
    return rows[0][0] if len(rows) == 1 and isinstance(rows[0][0], int) else None


def _from_thread_names(export: Export) -> dict[int, int]:
    if not export.has("ThreadNames", "globalTid", "nameId"):
        return {}
    rows = export.rows(
        f"SELECT t.globalTid & {PROCESS_MASK}, s.value FROM ThreadNames AS t"
        " JOIN StringIds AS s ON s.id = t.nameId WHERE s.value GLOB 'MPI Rank *'"
    )
    matches = ((g, _MPI_THREAD.fullmatch(name)) for g, name in rows if isinstance(name, str))
    return {g: int(m[1]) for g, m in matches if m}


def _from_order(
    candidates: list[Candidate], environment: Mapping[str, int]
) -> dict[int, RankEvidence]:
    """Number the processes of one report by (device, pid), after those of the nodes before."""
    node = next((environment[n] for n in _NODE_VARIABLES if n in environment), 0)
    order = "devices" if all(c.devices for c in candidates) else "process ids"
    source = f"order of {order} in the report"
    if node:
        source += f", as node {node} of nodes with {len(candidates)} ranks each"
    first = node * len(candidates)
    return {c.global_pid: RankEvidence(first + i, source) for i, c in enumerate(candidates)}
