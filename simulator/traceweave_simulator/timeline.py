"""The physics: when each instruction of the program happens on each rank, in true time.

CUDA's semantics. A launching call puts work on a stream; the work starts when the call has taken
effect, the stream is free and what the stream was told to wait for is done. A collective's kernel
starts like any other and spins until every member has started its own; then the transfer takes
alpha + S * factor / beta, and it ends everywhere, plus jitter. The host goes on at once, except in
a synchronizing call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from traceweave_simulator.config import Config, Times
from traceweave_simulator.program import Code, Comm, Instruction, Program

BUS_FACTORS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}
"""Bus bandwidth factors of nccl-tests times n / (n - 1)."""

NEVER = -1
"""Start and end of a row on a rank that does not run it."""


def transfer_ns(comm: Comm, config: Config) -> int:
    """Return the time a collective takes once everybody is there: alpha + S * factor / beta
    (nccl-tests' factors)."""
    n = comm.size
    factor = BUS_FACTORS[comm.op] * (n - 1) / n if comm.op in BUS_FACTORS else 1.0
    return config.alpha_ns + round(comm.bytes * factor / config.beta_gbps)


@dataclass
class StepTimes:
    """Start and end of every row of one step's program, shape (rows, ranks), ns since the run's
    start."""

    program: Program
    step_start: Times
    step_end: Times
    ranges: tuple[Times, Times]
    calls: tuple[Times, Times]
    gpu: tuple[Times, Times]
    dependency: dict[int, Times] = field(default_factory=dict)
    """GPU row -> when the streams it waited for were done, of the rows that waited for any."""


class Machine:
    """Hosts and devices of all ranks: where each host's clock stands and until when each stream
    is busy."""

    def __init__(self, config: Config, rng: np.random.Generator) -> None:
        self.config = config
        self.rng = rng
        n = config.ranks
        spread = config.start_spread_ns
        self.host: Times = 1_000_000 + rng.integers(0, spread + 1, n)
        self.busy: dict[int, Times] = {}
        self.pending: dict[int, Times] = {}
        """Stream -> until when what comes next on it has to wait for other streams; 0: not at
        all."""
        self.link = np.array([config.slow_link.get(r, 1.0) for r in range(n)])
        self.extra_launch = np.array([config.slow_host.get(r, 0) for r in range(n)], dtype=np.int64)

    def stream(self, number: int) -> Times:
        """Return until when a stream is busy on each rank; writing to it counts."""
        if number not in self.busy:
            self.busy[number] = np.zeros(self.config.ranks, dtype=np.int64)
        return self.busy[number]

    def run(self, program: Program) -> StepTimes:
        """Execute one step on all ranks."""
        return _StepRun(self, program).execute()


class _StepRun:
    """One step being executed; its arrays are filled row by row."""

    def __init__(self, machine: Machine, program: Program) -> None:
        self.m, self.p, self.config = machine, program, machine.config
        n = self.config.ranks
        self.range_start, self.range_end = (
            _never(len(program.ranges), n),
            _never(len(program.ranges), n),
        )
        self.call_start, self.call_end = (
            _never(len(program.calls), n),
            _never(len(program.calls), n),
        )
        self.gpu_start, self.gpu_end = _never(len(program.gpu), n), _never(len(program.gpu), n)
        self.dependency: dict[int, Times] = {}
        self.costs = self._host_costs()
        self.durations = self._durations()

    def _host_costs(self) -> Times:
        base = np.array([i.cost_ns for i in self.p.instructions], dtype=np.float64)
        costs = self._noisy(base, self.config.host_jitter)
        launching = np.array([i.code in LAUNCHING for i in self.p.instructions])
        costs[launching] += self.m.extra_launch
        for number, instruction in enumerate(self.p.instructions):
            if instruction.code == Code.WORK and instruction.only is not None:
                others = np.setdiff1d(np.arange(self.config.ranks), instruction.only)
                costs[number, others] = 0
                costs[number, list(instruction.only)] = instruction.cost_ns
        return costs

    def _durations(self) -> Times:
        config = self.config
        compute = np.array([op.kind == "kernel" and op.comm < 0 for op in self.p.gpu])
        base = np.array([op.kernel.duration_ns for op in self.p.gpu], dtype=np.float64)
        base[compute] *= config.compute_scale
        durations = self._noisy(base, config.kernel_jitter)
        rows = np.flatnonzero(compute)
        for rank, extra in config.straggler.items():
            durations[rows, rank] += extra // len(rows)
            durations[rows[-1], rank] += extra % len(rows)
        return np.maximum(durations, 1)

    def _noisy(self, base: npt.NDArray[np.float64], sigma: float) -> Times:
        if not sigma:
            return np.repeat(np.rint(base).astype(np.int64)[:, None], self.config.ranks, axis=1)
        noise = self.m.rng.standard_normal((len(base), self.config.ranks), dtype=np.float32)
        noisy: Times = np.rint(base[:, None] * np.exp(sigma * noise)).astype(np.int64)
        return noisy

    def execute(self) -> StepTimes:
        """Run the instructions in order."""
        begin = self.m.host.copy()
        self.m.host += 2_000
        actions = {
            Code.PUSH: self._push,
            Code.POP: self._pop,
            Code.WORK: self._work,
            Code.CALL: self._call,
            Code.LAUNCH: self._launch,
            Code.COLLECTIVE: self._collective,
            Code.SEND: self._send,
            Code.RECV: self._receive,
            Code.WAIT: self._wait,
            Code.SYNC: self._sync,
        }
        for instruction, cost in zip(self.p.instructions, self.costs, strict=True):
            actions[instruction.code](instruction, cost)
        end = self.m.host + 1_000
        self.m.host = end + 2_000
        return StepTimes(
            self.p,
            begin,
            end,
            (self.range_start, self.range_end),
            (self.call_start, self.call_end),
            (self.gpu_start, self.gpu_end),
            self.dependency,
        )

    # -- host

    def _push(self, i: Instruction, cost: Times) -> None:
        self.range_start[i.row, i.who] = self.m.host[i.who]
        self.m.host[i.who] += cost[i.who]

    def _pop(self, i: Instruction, cost: Times) -> None:
        self.m.host[i.who] += cost[i.who]
        self.range_end[i.row, i.who] = self.m.host[i.who]

    def _work(self, i: Instruction, cost: Times) -> None:
        self.m.host[i.who] += cost[i.who]

    def _call(self, i: Instruction, cost: Times) -> None:
        self.call_start[i.row, i.who] = self.m.host[i.who]
        self.m.host[i.who] += cost[i.who]
        self.call_end[i.row, i.who] = self.m.host[i.who]
        self.m.host[i.who] += 200

    def _sync(self, i: Instruction, cost: Times) -> None:
        self.call_start[i.row, i.who] = self.m.host[i.who]
        longer = np.full(self.config.ranks, i.other, dtype=np.int64)
        if i.only is not None:
            longer[np.setdiff1d(np.arange(self.config.ranks), i.only)] = 0
        done = self.m.host + cost
        for stream in i.streams:
            if stream in self.m.busy:
                free = self.m.busy[stream] - self.config.kernel_spacing_ns
                done = np.maximum(done, free + self.config.sync_return_ns)
        self.m.host[i.who] = (done + longer)[i.who]
        self.call_end[i.row, i.who] = self.m.host[i.who]
        self.m.host[i.who] += 200

    # -- device

    def _start(self, i: Instruction, cost: Times) -> Times:
        """Make the launching call and return when its work starts."""
        ready = self.m.host[i.who] + self.config.launch_latency_ns
        self._call(i, cost)
        stream = self.p.gpu[i.other].stream
        start: Times = np.maximum(ready, self.m.stream(stream)[i.who])
        pending = self.m.pending.get(stream)
        if pending is not None:
            start = np.maximum(start, pending[i.who])
            self.dependency[i.other] = pending.copy()
            pending[i.who] = 0
            if not pending.any():
                del self.m.pending[stream]
        self.gpu_start[i.other, i.who] = start
        return start

    def _finish(self, row: int, ranks: npt.NDArray[np.int64] | slice, end: Times) -> None:
        self.gpu_end[row, ranks] = end
        self.m.stream(self.p.gpu[row].stream)[ranks] = end + self.config.kernel_spacing_ns

    def _launch(self, i: Instruction, cost: Times) -> None:
        start = self._start(i, cost)
        self._finish(i.other, i.who, start + self.durations[i.other, i.who])

    def _wait(self, i: Instruction, cost: Times) -> None:
        self._call(i, cost)
        stream, on = i.streams
        if on not in self.m.busy:
            return
        # nothing to wait for on the ranks that do not run this: 0 is long past
        done = np.zeros(self.config.ranks, dtype=np.int64)
        done[i.who] = self.m.busy[on][i.who] - self.config.kernel_spacing_ns
        earlier = self.m.pending.get(stream)
        self.m.pending[stream] = done if earlier is None else np.maximum(done, earlier)

    def _transfer(self, comm: Comm) -> Times:
        """Return the transfer time in each group, shape (groups, 1), with what slows it down."""
        config = self.config
        usual = transfer_ns(comm, config)
        slowest = self.m.link[comm.members].max(axis=1, keepdims=True)
        result: Times = config.alpha_ns + np.rint((usual - config.alpha_ns) * slowest).astype(
            np.int64
        )
        if config.stall_share:
            stalled = self.m.rng.random(result.shape) < config.stall_share
            result += np.where(stalled, config.stall_ns, 0)
        return result

    def _ends(self, comm: Comm, arrival: Times) -> Times:
        """Return when each member of each group is done, shape of `comm.members`."""
        last = arrival.max(axis=1, keepdims=True)
        end = last + self._transfer(comm)
        size = comm.size
        bias = (self.config.ring_bias_ns * np.arange(size)) // max(1, size - 1)
        jitter = self.m.rng.integers(0, self.config.end_jitter_ns + 1, comm.members.shape)
        result: Times = end + bias + jitter
        return result

    def _collective(self, i: Instruction, cost: Times) -> None:
        self._start(i, cost)
        comm = self.p.comms[self.p.gpu[i.other].comm]
        end = self._ends(comm, self.gpu_start[i.other][comm.members])
        self._finish(i.other, comm.members.ravel(), end.ravel())

    def _send(self, i: Instruction, cost: Times) -> None:
        self._start(i, cost)

    def _receive(self, i: Instruction, cost: Times) -> None:
        self._start(i, cost)
        comm = self.p.comms[self.p.gpu[i.other].comm]
        sent = next(row for row, op in enumerate(self.p.gpu) if op.comm == comm.pair)
        sender, receiver = comm.members.T
        arrival = np.stack(
            [self.gpu_start[sent, sender], self.gpu_start[i.other, receiver]], axis=1
        )
        end = self._ends(comm, arrival)
        self._finish(sent, sender, end[:, 0])
        self._finish(i.other, receiver, end[:, 1])


LAUNCHING = (Code.LAUNCH, Code.COLLECTIVE, Code.SEND, Code.RECV)


def _never(rows: int, ranks: int) -> Times:
    return np.full((rows, ranks), NEVER, dtype=np.int64)
