"""The context manager that users put around their training loop."""

from __future__ import annotations

import itertools
import logging
import os
import statistics
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from traceweave.capturing.clock_probes import Probes, ProbeTree
from traceweave.capturing.extras import MemorySnapshot, dump_flight_recorder
from traceweave.capturing.job import Process, describe, this_process
from traceweave.capturing.meeting import Meeting
from traceweave.capturing.recorders import NsysRecorder, Recorder, TorchRecorder

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Store

NEVER = -1
"""No step has this number."""

USUAL_STEPS = 20
"""The steps before the profiler is made ready, whose median is how long one took without it."""

log = logging.getLogger("traceweave.capture")

_numbers = itertools.count()
"""Of the captures of this process: the same on every rank, as ranks run the same program."""


class capture:
    """Records the same steps on every rank, so that their traces can be compared.

        with traceweave.capture("traces/", steps=range(10, 13)) as capture:
            for batch in loader:
                train_step(batch)
                capture.step()

    Never breaks or hangs training: whatever goes wrong is logged once and turns the capture off,
    and no rank waits longer than `time_limit` for the others.
    """

    def __init__(
        self,
        folder: str | Path,
        steps: range,
        *,
        first_step: int = 0,
        warmup: int = 3,
        profiler: str = "torch",
        shapes: bool = True,
        memory: bool = False,
        stacks: bool = False,
        sync_events: bool = True,
        flight_recorder: bool = False,
        memory_snapshot: bool = False,
        clock_probes: bool = True,
        roles: Mapping[str, ProcessGroup] | None = None,
        all_ranks: bool = True,
        time_limit: float = 60.0,
        store: Store | None = None,
    ) -> None:
        """Record `steps` into `folder`, one file per rank.

        Args:
            folder: where the files go; is created.
            steps: the numbers of the steps to record, one after the other.
            first_step: the number of the step that is under way when the block is entered.
            warmup: so many steps before, the ranks agree and the profiler is made ready.
            profiler: 'torch', or 'nsys' for ranges and the capture range of an nsys around the job.
            shapes: record the shapes of tensors (FLOPs need them).
            memory: record allocations.
            stacks: record Python frames; slow.
            sync_events: record what streams and events wait for (CUDA).
            flight_recorder: also dump what torch's flight recorder holds.
            memory_snapshot: also write a snapshot of CUDA's allocator.
            clock_probes: exchange probes before and after, which tell the clocks.
            roles: what process groups are for, such as {'tp': group}.
            all_ranks: record nothing unless every rank takes part.
            time_limit: seconds to wait for other ranks.
            store: where the ranks meet; that of the default process group unless given.
        """
        self._folder = Path(folder)
        self._steps = steps
        self._warmup = warmup
        self._profiler = profiler
        self._torch = TorchRecorder(shapes, memory, stacks, sync_events)
        self._flight_recorder = flight_recorder
        self._memory_snapshot = memory_snapshot
        self._clock_probes = clock_probes
        self._roles = roles or {}
        self._all_ranks = all_ranks
        self._limit = time_limit
        self._store = store
        self._first = self._now = first_step
        self._number = next(_numbers)
        self._meeting: Meeting | None = None
        self._tree: ProbeTree | None = None
        self._begun: deque[int] | None = deque(maxlen=USUAL_STEPS + 1)
        """When the latest steps began, by the monotonic clock, ns; None: that is known."""
        self._usual_ns: int | None = None
        self._note = ""
        self._done = self._failed = False
        self._script = self._run()
        self._next = NEVER
        """The step at whose beginning there is something to do."""

    def __enter__(self) -> capture:
        self._go_on()
        if self._next == self._now:
            self._go_on()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ended = f"{kind.__name__} in training" if kind else "training ended"
        with self._harmless():
            self._leave(f"{ended} at step {self._now}")
        with self._harmless():
            self._script.close()

    def step(self) -> None:
        """Tell that a step is over and the next one begins."""
        self._now += 1
        if self._begun is not None:
            self._begun.append(time.perf_counter_ns())
        if self._now == self._next:
            self._go_on()

    def _go_on(self) -> None:
        """Do what is to be done at the beginning of this step."""
        self._next, due = NEVER, NEVER
        with self._harmless():
            due = next(self._script, NEVER)
        self._next = due

    def _run(self) -> Generator[int]:
        """What is to be done; yields the number of the step at whose beginning it goes on."""
        steps = self._steps
        if not steps or steps.step != 1 or steps[0] < self._first:
            raise ValueError(f"{steps} is not a range of steps from {self._first} on")
        yield max(self._first, steps[0] - self._warmup)
        self._usual_ns = self._usual_step()
        process = this_process()
        recorder = self._recorder()
        if not self._agree(process, recorder):
            return
        recorder.prepare()
        try:
            if steps[0] > self._now:
                yield steps[0]
            yield from self._record(process, recorder)
        finally:
            recorder.close()

    def _usual_step(self) -> int | None:
        """How long a step takes before there is a profiler; None where too few were seen."""
        took = [after - before for before, after in itertools.pairwise(self._begun or ())]
        self._begun = None
        return int(statistics.median(took)) if len(took) > 2 else None

    def _agree(self, process: Process, recorder: Recorder) -> bool:
        """Whether all ranks record; says why not."""
        objection = recorder.objection() or self._make_folder()
        self._meeting = self._meet(process)
        if self._meeting is None:
            if objection:
                log.warning("nothing is recorded: %s", objection)
            return objection is None
        if self._clock_probes:
            self._tree = ProbeTree(self._meeting, process.rank, process.clock)
        agreed = self._meeting.agree(objection, self._all_ranks)
        if agreed.note:
            what = "records without some" if agreed.record else "nothing is recorded"
            log.warning("rank %d: %s: %s", process.rank, what, agreed.note)
        self._note = agreed.note
        if not agreed.record:
            self._leave(agreed.note)
        return agreed.record

    def _record(self, process: Process, recorder: Recorder) -> Generator[int]:
        """Record the window; also what of it there is if it is left early."""
        snapshot = MemorySnapshot() if self._memory_snapshot else None
        description = describe(process, self._roles)
        before = self._exchange("agreed", "begin")
        if snapshot:
            snapshot.start()
        recorder.start()
        number = first = self._steps[0]
        left = True
        try:
            for number in self._steps:
                with recorder.step(number):
                    yield number + 1
            left = False
        finally:
            # a step that nobody told the end of is cut or never ran; one that is all there is stays
            cut = number if left and number > first else None
            last = number if cut is None else number - 1
            after: list[Probes] = []
            with self._harmless():
                after = self._exchange("end", "probed")
            recorder.stop(
                description
                | {
                    "steps": [first, last],
                    "note": self._note,
                    "unprofiled_step_ns": self._usual_ns,
                    "probes": [{"peer": one.peer, "times": one.times} for one in before + after],
                }
            )
            self._leave("its window is over")
            path = self._folder / f"rank{process.rank}_step{first}-{last}"
            self._save(path, recorder, snapshot, cut)

    def _save(
        self, path: Path, recorder: Recorder, snapshot: MemorySnapshot | None, cut: int | None
    ) -> None:
        """Write all that was asked for; what fails takes nothing else down."""
        with self._harmless():
            log.info("wrote %s", recorder.save(path, cut))
        if snapshot:
            with self._harmless():
                log.info("wrote %s", snapshot.save(path))
        if self._flight_recorder:
            with self._harmless():
                log.info("wrote %s", dump_flight_recorder(path))

    def _exchange(self, come: str, go: str) -> list[Probes]:
        """Let all come, exchange probes while nobody does anything else, and let all go on."""
        if self._meeting is None or self._meeting.left:
            return []
        self._barrier(come)
        probes = self._tree.exchange() if self._tree else []
        self._barrier(go)
        if self._tree:
            self._tree.pause()
        return probes

    def _barrier(self, name: str) -> None:
        if self._meeting and not self._meeting.barrier(name) and not self._note:
            self._note = f"not all ranks came to '{name}' within {self._limit:g} s"
            log.warning("rank %d: %s", self._meeting.rank, self._note)

    def _recorder(self) -> Recorder:
        if self._profiler == "nsys":
            return NsysRecorder()
        if self._profiler == "torch":
            return self._torch
        raise ValueError(f"no profiler {self._profiler!r}: it is 'torch' or 'nsys'")

    def _make_folder(self) -> str | None:
        """Make the folder; why it is of no use, if so."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"{self._folder}: {error.strerror}"
        return None if os.access(self._folder, os.W_OK) else f"{self._folder} is not writable"

    def _meet(self, process: Process) -> Meeting | None:
        if process.world_size == 1:
            return None
        from torch.distributed.distributed_c10d import _get_default_store

        store = self._store or _get_default_store()
        name = f"{self._number}/{self._steps.start}-{self._steps.stop}"
        return Meeting(store, name, process.rank, process.world_size, self._limit)

    def _leave(self, reason: str) -> None:
        """Let nobody wait for this rank any more."""
        if self._done:
            return
        self._done = True
        if self._meeting is None:  # it has not even begun
            self._meeting = self._meet(this_process())
        if self._meeting is not None:
            self._meeting.leave(reason)
        if self._tree is not None:
            self._tree.close()

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        """Log an error, turn off, and go on."""
        try:
            yield
        except Exception as error:
            if not self._failed:
                self._failed = True
                log.warning("the capture is off: %s: %s", type(error).__name__, error)
            with suppress(Exception):
                self._leave(f"{type(error).__name__}: {error}")
