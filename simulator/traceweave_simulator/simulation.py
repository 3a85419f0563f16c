"""From a configuration to a run: build each step's program, execute it, lay the steps end to
end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from traceweave_simulator.config import Config, Gap, Times
from traceweave_simulator.groups import Groups
from traceweave_simulator.model import StepBuilder
from traceweave_simulator.pipeline import PipelineBuilder
from traceweave_simulator.program import Program
from traceweave_simulator.run import Index, Row, Rows, Run
from traceweave_simulator.timeline import Machine, StepTimes

FIRST_SEQUENCE = 10_000
"""The autograd counter had been running before the recording."""


def simulate(config: Config) -> Run:
    """Compute a run's true timeline. The same configuration gives the same run."""
    groups = Groups(config)
    machine = Machine(config, np.random.default_rng((config.seed, 2)))
    builder = PipelineBuilder if config.parallelism == "pp" else StepBuilder
    programs: dict[tuple[Gap, ...], Program] = {}
    steps: list[StepTimes] = []
    for step in range(config.steps):
        gaps = tuple(g for g in config.gaps if g.step is None or g.step == step)
        if gaps not in programs:
            programs[gaps] = builder(config, groups, gaps).build()
        steps.append(machine.run(programs[gaps]))
    return _assemble(config, groups, list(programs.values()), steps)


def _assemble(
    config: Config, groups: Groups, programs: list[Program], steps: list[StepTimes]
) -> Run:
    which = [next(i for i, p in enumerate(programs) if p is s.program) for s in steps]
    range_first = _firsts([len(s.program.ranges) for s in steps])
    call_first = _firsts([len(s.program.calls) for s in steps])
    gpu_first = _firsts([len(s.program.gpu) for s in steps])
    comm_first = _firsts([len(p.comms) for p in programs])[which]
    sequence_first = _firsts([s.program.sequences for s in steps]) + FIRST_SEQUENCE

    def joined(value_of: Callable[[Program], list[int]], firsts: Index) -> Index:
        """Shift each step's references to rows by that step's first row; -1 stays."""
        values = [np.asarray(value_of(p), dtype=np.int64) for p in programs]
        shifted = [
            np.where(values[w] < 0, -1, values[w] + first)
            for w, first in zip(which, firsts, strict=True)
        ]
        return np.concatenate(shifted)

    return Run(
        config,
        tuple(groups.all),
        config.rank_clocks(),
        np.stack([s.step_start for s in steps]),
        np.stack([s.step_end for s in steps]),
        _rows([p.ranges for p in programs], which, [s.ranges for s in steps]),
        _rows([p.calls for p in programs], which, [s.calls for s in steps]),
        _rows([p.gpu for p in programs], which, [s.gpu for s in steps]),
        tuple(c for p in programs for c in p.comms),
        call_scope=joined(lambda p: [c.scope for c in p.calls], range_first),
        gpu_call=joined(lambda p: [g.call for g in p.gpu], call_first),
        gpu_comm=joined(lambda p: [g.comm for g in p.gpu], comm_first),
        range_comm=joined(_comm_kernels, gpu_first),
        range_sequence=joined(lambda p: [r.sequence for r in p.ranges], sequence_first),
        dependency=_dependencies(steps, gpu_first),
    )


def _dependencies(steps: list[StepTimes], firsts: Index) -> dict[int, Times]:
    return {
        int(first + row): until
        for first, step in zip(firsts, steps, strict=True)
        for row, until in step.dependency.items()
    }


def _comm_kernels(program: Program) -> list[int]:
    """Return for each range the GPU row of the collective it speaks of; -1: none."""
    rows = {op.comm: row for row, op in enumerate(program.gpu) if op.comm >= 0}
    return [rows[r.comm] if r.comm >= 0 else -1 for r in program.ranges]


def _firsts(lengths: list[int]) -> Index:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)


def _rows(
    per_program: list[list[Row]], which: list[int], times: list[tuple[Times, Times]]
) -> Rows[Row]:
    firsts = _firsts([len(rows) for rows in per_program])
    return Rows(
        tuple(row for rows in per_program for row in rows),
        np.concatenate([firsts[w] + np.arange(len(per_program[w])) for w in which]),
        np.repeat(np.arange(len(which)), [len(per_program[w]) for w in which]),
        np.concatenate([start for start, _ in times]),
        np.concatenate([end for _, end in times]),
    )
