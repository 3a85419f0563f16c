"""Every analysis as a method of a run: written by `python docs/generate.py`."""

from typing import Generic, Literal, TypeVar

Frame = TypeVar("Frame")

class Analyses(Generic[Frame]):
    def files(self) -> Frame:
        """What became of every input file."""
    def findings(
        self,
        *,
        min_share: float = 0.01,
        warning_share: float = 0.05,
        critical_share: float = 0.2,
        straggler_factor: float = 2.0,
        straggler_chance: float = 0.1,
        per: Literal['run', 'step'] = 'run',
        queued_ns: int = 10000,
        min_gap_ns: int = 1000,
        kernel_delay_ns: int = 30000,
        forward_share: float = 0.15,
        read_bytes: int = 64,
        group_id: int | None = None,
        small_bytes: int = 65536,
        stall_share: float = 0.05,
        unequal_stages: float = 0.1,
        slow_kernels: float = 0.03,
        slower_share: float = 0.8,
        kernel_spread: float = 1.5,
        unsteady_share: float = 0.05,
        bucket_bytes: int = 25000000,
        comm_bound_share: float = 0.3,
        poor_overlap: float = 0.5,
        tail_factor: float = 2.0,
        tail_share: float = 0.25,
        slow_link: float = 1.3,
        host_stall_ns: int = 2000000,
        host_stall_factor: float = 100.0,
        compute_bound_share: float = 0.8,
        fragmentation: float = 0.2,
        idle_cache_bytes: int = 1000000000,
        gpu_memory_bytes: int | None = None,
        replay_ops: int = 1000000,
    ) -> Frame:
        """What costs this run time, with evidence and advice."""
    def fixes(
        self,
        *,
        replay_ops: int = 1000000,
        min_share: float = 0.01,
        straggler_factor: float = 2.0,
        straggler_chance: float = 0.1,
        per: Literal['run', 'step'] = 'run',
        queued_ns: int = 10000,
        min_gap_ns: int = 1000,
        kernel_delay_ns: int = 30000,
        forward_share: float = 0.15,
        read_bytes: int = 64,
        group_id: int | None = None,
        small_bytes: int = 65536,
        stall_share: float = 0.05,
        warning_share: float = 0.05,
        unequal_stages: float = 0.1,
        slow_kernels: float = 0.03,
        slower_share: float = 0.8,
        kernel_spread: float = 1.5,
        unsteady_share: float = 0.05,
        bucket_bytes: int = 25000000,
        comm_bound_share: float = 0.3,
        poor_overlap: float = 0.5,
        tail_factor: float = 2.0,
        tail_share: float = 0.25,
        slow_link: float = 1.3,
        host_stall_ns: int = 2000000,
        host_stall_factor: float = 100.0,
        compute_bound_share: float = 0.8,
        fragmentation: float = 0.2,
        idle_cache_bytes: int = 1000000000,
        gpu_memory_bytes: int | None = None,
    ) -> Frame:
        """What fixing the first n findings together would be worth, and what is the bottleneck
            then."""
    def health(
        self,
        *,
        replay_ops: int = 1000000,
        min_share: float = 0.01,
        straggler_factor: float = 2.0,
        straggler_chance: float = 0.1,
        per: Literal['run', 'step'] = 'run',
        queued_ns: int = 10000,
        min_gap_ns: int = 1000,
        kernel_delay_ns: int = 30000,
        forward_share: float = 0.15,
        read_bytes: int = 64,
        group_id: int | None = None,
        small_bytes: int = 65536,
        stall_share: float = 0.05,
        warning_share: float = 0.05,
        unequal_stages: float = 0.1,
        slow_kernels: float = 0.03,
        slower_share: float = 0.8,
        kernel_spread: float = 1.5,
        unsteady_share: float = 0.05,
        bucket_bytes: int = 25000000,
        comm_bound_share: float = 0.3,
        poor_overlap: float = 0.5,
        tail_factor: float = 2.0,
        tail_share: float = 0.25,
        slow_link: float = 1.3,
        host_stall_ns: int = 2000000,
        host_stall_factor: float = 100.0,
        compute_bound_share: float = 0.8,
        fragmentation: float = 0.2,
        idle_cache_bytes: int = 1000000000,
        gpu_memory_bytes: int | None = None,
    ) -> Frame:
        """The most important answers on one screen."""
    def issues(self) -> Frame:
        """What was lost or odd while the files were read."""
    def ranks(self) -> Frame:
        """Where each rank ran, and what was recorded of it."""
    def recording(self) -> Frame:
        """Whether the records of every rank and step are fit to judge."""
    def settings(self) -> Frame:
        """Versions and switches that the job ran with, and where ranks differ."""
    def accounting(
        self,
        *,
        window: Literal['device', 'host', 'span'] = 'device',
        queued_ns: int = 10000,
        min_gap_ns: int = 1000,
        kernel_delay_ns: int = 30000,
    ) -> Frame:
        """Where every nanosecond of each rank's step went: its state, the cause, and who is behind
            it."""
    def breakdown(
        self,
        *,
        window: Literal['device', 'host', 'span'] = 'device',
    ) -> Frame:
        """What each rank's time was made of: compute, exposed communication, exposed memory work,
            idle."""
    def copies(
        self,
        *,
        interval_ns: int | None = None,
    ) -> Frame:
        """Bytes, time, rate and overlap of copies and memsets, by direction and kind of host
            memory."""
    def critical_path(self) -> Frame:
        """What the end of the run waited for, back to its beginning: the one chain of work that
            makes steps as long as they are."""
    def data_loading(
        self,
        *,
        window: Literal['device', 'host', 'span'] = 'host',
        min_gap_ns: int = 1000,
        kernel_delay_ns: int = 30000,
    ) -> Frame:
        """Time that the host spent getting data, and the idle time of the GPU that it caused."""
    def gaps(
        self,
        *,
        per: Literal['device', 'stream'] = 'device',
        min_gap_ns: int = 1000,
        kernel_delay_ns: int = 30000,
        window: Literal['device', 'host', 'span'] = 'device',
    ) -> Frame:
        """When nothing ran on a device or stream, why, and what the host was doing."""
    def graphs(self) -> Frame:
        """Launches of CUDA graphs and what they run."""
    def host_ops(
        self,
        *,
        kind: Literal['op', 'annotation', 'nvtx', 'python', 'module'] = 'op',
        rank: int | None = None,
        step: int | None = None,
    ) -> Frame:
        """Time of operators on the host and of the GPU work they launched, self and total."""
    def idle_causes(
        self,
        *,
        window: Literal['device', 'host', 'span'] = 'device',
        min_gap_ns: int = 1000,
        kernel_delay_ns: int = 30000,
    ) -> Frame:
        """Idle time of each rank and step by cause."""
    def idle_streams(
        self,
        *,
        kernel_delay_ns: int = 30000,
    ) -> Frame:
        """Why each stream was idle, in the three classes of HolisticTraceAnalysis."""
    def kernel_ranks(
        self,
        *,
        kernels: int | None = None,
        rank: int | None = None,
    ) -> Frame:
        """How long the same kernel takes on each rank, beside the median rank."""
    def kernel_types(
        self,
        *,
        window: Literal['device', 'host', 'span'] = 'device',
    ) -> Frame:
        """How long each combination of compute, communication and copies ran at the same time."""
    def kernels(
        self,
        *,
        per: Literal['name', 'class'] = 'name',
        rank: int | None = None,
        step: int | None = None,
    ) -> Frame:
        """Time of GPU kernels by name or by class, and how evenly the ranks share it."""
    def launches(
        self,
        *,
        ops: Literal['all', 'kernels'] = 'all',
        slow_call_ns: int = 50000,
        late_start_ns: int = 100000,
    ) -> Frame:
        """From the API call to the end of its GPU work: call, queueing, execution."""
    def memory(
        self,
        *,
        per: Literal['run', 'step'] = 'run',
    ) -> Frame:
        """Allocated and reserved memory at the peak, and fragmentation."""
    def memory_live(self) -> Frame:
        """What was allocated at the peak, by the operator that allocated it."""
    def memory_timeline(
        self,
        *,
        stretches: int = 400,
        curves: int | None = None,
    ) -> Frame:
        """How much memory was allocated and reserved over time."""
    def path_changes(self) -> Frame:
        """Where the critical path changes rank: a collective whose last member came from there."""
    def pop(
        self,
        *,
        window: Literal['device', 'host', 'span'] = 'device',
    ) -> Frame:
        """How efficient the ranks are together, in the terms of the POP methodology."""
    def queue_depth(
        self,
        *,
        queue_limit: int = 960,
        interval_ns: int | None = None,
    ) -> Frame:
        """How many launches wait on each stream, and how long a full queue blocks the host."""
    def ranges(
        self,
        *,
        kind: Literal['any', 'nvtx', 'annotation', 'graph', 'op', 'python'] = 'any',
        step: int | None = None,
    ) -> Frame:
        """Time of NVTX ranges and annotations on the host, and of the GPU work launched in them."""
    def replay_quality(self) -> Frame:
        """How much of each rank's time the dependency graph explains."""
    def sequences(
        self,
        *,
        length: int = 3,
        min_count: int = 10,
        max_kernel_ns: int | None = None,
        rank: int | None = None,
    ) -> Frame:
        """Kernels that follow each other again and again on one stream."""
    def slow_steps(
        self,
        *,
        min_excess_share: float = 0.1,
        window: Literal['device', 'host'] = 'device',
        min_gap_ns: int = 1000,
        kernel_delay_ns: int = 30000,
    ) -> Frame:
        """The steps that took longer than usual, and what grew in them."""
    def steps(self) -> Frame:
        """How long every step took over the ranks."""
    def syncs(
        self,
        *,
        min_call_ns: int = 0,
        step: int | None = None,
    ) -> Frame:
        """Calls in which the host waited for the device, and the code that made them."""
    def flops(
        self,
        *,
        per: Literal['op', 'shape', 'class'] = 'op',
        rank: int | None = None,
        step: int | None = None,
        peak_tflops: float | None = None,
        peak_gbps: float | None = None,
    ) -> Frame:
        """Floating point operations by operator, the rate reached, and the rate possible."""
    def mfu(
        self,
        *,
        window: Literal['device', 'host', 'span'] = 'device',
        model_flops: float | None = None,
        dtype: Literal['auto', 'fp64', 'fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'fp4', 'int8'] = 'auto',
        peak_tflops: float | None = None,
    ) -> Frame:
        """How much of the GPUs' peak the model's arithmetic used: model FLOPs utilization of every
            step, rank and the run."""
    def op_work(
        self,
        *,
        rank: int | None = None,
        step: int | None = None,
        per: Literal['call', 'step'] = 'call',
    ) -> Frame:
        """What every operator computed, and the GPU time it took."""
    def rank_difference(
        self,
        *,
        rank: int | None = None,
        min_share: float = 0.01,
    ) -> Frame:
        """What one rank does more, longer or alone, beside the median of the others."""
    def alpha_beta(
        self,
        *,
        time: Literal['transfer', 'shortest'] = 'transfer',
        min_span: float = 2.0,
        small_bytes: int = 65536,
    ) -> Frame:
        """Latency and bandwidth behind the collectives of each group: transfer = alpha + effective
            bytes / beta."""
    def bandwidth(
        self,
        *,
        slow_factor: float = 2.0,
    ) -> Frame:
        """Bandwidth of every kind of collective, excluding waiting."""
    def contention(
        self,
        *,
        per: Literal['class', 'kernel', 'rank'] = 'class',
    ) -> Frame:
        """What compute loses to communication and copies that run beside it, against the same work
            alone."""
    def exchanges(self) -> Frame:
        """How unevenly all_to_all, dispatch and combine divide what they move, and what that
            costs."""
    def exposed_causes(
        self,
        *,
        window: Literal['device', 'host', 'span'] = 'device',
        release_ns: int = 30000,
    ) -> Frame:
        """Why no compute hides the exposed time of each collective: a partition by cause."""
    def exposed_comm(
        self,
        *,
        queued_ns: int = 10000,
    ) -> Frame:
        """Time of each collective that no compute hides, split into waiting and transfer."""
    def hangs(self) -> Frame:
        """Which ranks keep a stuck job from going on, from the flight recorder's dumps."""
    def inspector(self) -> Frame:
        """Collectives as NCCL Inspector measured them, beside what the traces say."""
    def matching(
        self,
        *,
        per: Literal['group', 'run'] = 'group',
    ) -> Frame:
        """How many collective calls found their partners on the other ranks, and where the clocks
            resolve which rank came last."""
    def overlap(
        self,
        *,
        per: Literal['run', 'rank', 'step', 'call'] = 'run',
        min_share: float = 0.01,
        replay_ops: int = 1000000,
        forward_share: float = 0.15,
        read_bytes: int = 64,
    ) -> Frame:
        """What overlap of communication and compute achieves, what it costs, how much more was
            possible, and what to change first."""
    def overlap_of(
        self,
        *,
        window: Literal['device', 'host', 'span'] = 'device',
        a: str = 'kind=compute',
        b: str = 'kind=transfer',
    ) -> Frame:
        """How long any two selections of operations ran at once, and each without the other."""
    def stragglers(
        self,
        *,
        per: Literal['run', 'step'] = 'run',
        min_excess_share: float = 0.1,
        queued_ns: int = 10000,
        min_gap_ns: int = 1000,
        kernel_delay_ns: int = 30000,
    ) -> Frame:
        """How long each rank made the others wait by arriving last, and what it was doing."""
    def tails(
        self,
        *,
        queued_ns: int = 10000,
    ) -> Frame:
        """How long collectives take at the median and in the tail, split into waiting and
            transfer."""
    def bucket_size(
        self,
        *,
        group_id: int | None = None,
        min_bytes: int = 1024,
        time: Literal['transfer', 'shortest'] = 'transfer',
    ) -> Frame:
        """What larger gradient buckets would cost or save, predicted from the latency and bandwidth
            of the group."""
    def comm_matrix(self) -> Frame:
        """Bytes sent between each pair of ranks, by send and recv and by all_to_all."""
    def ddp_buckets(
        self,
        *,
        group_id: int | None = None,
        min_bytes: int = 1024,
    ) -> Frame:
        """Each gradient bucket of data parallelism: when its gradients were ready, when they were
            reduced, and how much of that no compute hid."""
    def fsdp(
        self,
        *,
        group_id: int | None = None,
        release_ns: int = 30000,
    ) -> Frame:
        """Each all-gather and reduce-scatter of sharded data parallelism: how early it came, how
            long compute stalled for it."""
    def groups(
        self,
        *,
        per: Literal['group', 'role'] = 'group',
    ) -> Frame:
        """What each process group is for, what its communication costs, and how much of that is
            hidden."""
    def pipeline(
        self,
        *,
        group_id: int | None = None,
        release_ns: int = 30000,
    ) -> Frame:
        """The stages of a pipeline, their bubble compared with the minimum of the schedule, and
            what they wait for."""
    def slowdown(self) -> Frame:
        """How much stragglers slow the job down, as StragglerAnalysis (OSDI 2025) defines it: steps
            without delays against steps in which equal work takes equally long."""
    def tp(
        self,
        *,
        group_id: int | None = None,
        release_ns: int = 30000,
    ) -> Frame:
        """How much of every step its tensor-parallel collectives take, and how much of that is on
            the critical stream."""
    def clock_quality(self) -> Frame:
        """How every rank's clock was aligned, how well, and where causality contradicts it."""
