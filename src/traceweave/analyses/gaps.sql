-- analysis: gaps | when nothing ran on a device or stream, why, and what the host was doing
-- answers: Where does the GPU sit idle, for how long, and what keeps it waiting?
-- topic: time
-- grain: one row per gap, or part of one: gaps are cut where a launch returned and at window edges
-- page: table-worst-gaps
-- within: rank, 600 bytes per op
-- param: per VARCHAR = 'device' | what has to be idle
-- choice: per 'device' | nothing runs on any stream of the device
-- choice: per 'stream' | nothing runs on the stream, whatever the others do
-- param: min_gap_ns
-- param: kernel_delay_ns
-- param: window
-- column: rank INTEGER | global rank
-- column: device INTEGER | device number; NULL on the cpu timeline
-- column: stream BIGINT | stream, or thread on the cpu timeline; NULL: the whole device
-- column: step BIGINT | step of the window; NULL: the rank's whole span
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length on the rank's own clock
-- column: cause VARCHAR | of the host's part 'launch_bound', 'sync', 'data_loading', 'allocator', 'module_loading', 'compilation', 'graph_capture' or 'profiler_overhead', of the device's 'dependency', 'kernel_delay', 'device_delay' or 'began_before', or 'unknown': see the caveats
-- column: host_op VARCHAR | the innermost operator, annotation, NVTX range or Python function of the launching thread that covers more than half of the gap; NULL if none does, and for the device's part, which does not wait for the host
-- column: after_op VARCHAR | the op that ended last before the gap; NULL if there is none
-- column: before_op VARCHAR | the op that ended it; NULL if there is none
-- column: host_op_kind VARCHAR | kind of host_op
-- column: host_op_ns BIGINT | how much of the gap host_op covers
-- column: launch_start_ns BIGINT | start of the call that launched before_op, common clock; NULL if not recorded
-- column: sync_op VARCHAR | synchronizing call that blocked the launching thread; NULL if none
-- column: waited_for_op VARCHAR | per = 'stream': the op of another stream that ended last within the gap
-- column: timeline VARCHAR | 'gpu', or 'cpu' for a rank without GPU ops
-- column: after_op_id BIGINT | op_id of after_op
-- column: before_op_id BIGINT | op_id of before_op
-- column: whole_ns BIGINT | length of the whole gap within the window, of which this may be a part
-- main: rank, stream, step, start_ns, duration_ns, cause, host_op, before_op
-- order: duration_ns DESC, rank, device NULLS FIRST, stream NULLS FIRST, start_ns
-- caveat: until the launching call of the next op has returned, a gap is the host's part; after that it is the device's. If the op starts before its launch returns, there is no device's part.
-- caveat: launch_bound: the host had not launched the next op yet, for none of the reasons below.
-- caveat: data_loading: a range of data loading covers more than half of the host's part; on the cpu timeline of the gap.
-- caveat: allocator, module_loading, graph_capture, profiler_overhead: calls of the launching thread that allocate or free memory of the GPU (cudaMalloc, cudaFree), capture a graph (what it launches then does not run), load code onto it (also the first launch of a kernel, where that takes a millisecond or more), or what the profiler recorded as its own overhead, cover more than half of the host's part.
-- caveat: compilation: ranges of torch.compile or Triton in which code is compiled, or pauses of a millisecond or more in the calls of a thread before code is loaded, cover more than half of the host's part.
-- caveat: sync: the launching thread was in a call that waits for the device when the gap began or for more than half of the host's part: a synchronizing one, or a copy call that returned only when its copy to or from unpinned memory had ended. A wait explains no more of gaps than it lasted: what the host's parts since then have left of it has to be more than half of the part, else it is launch_bound, whatever sync_op says.
-- caveat: dependency: an op of another stream ended within the device's part, not more than kernel_delay_ns before the next op started. Only per = 'stream' sees it: while another stream runs, the device is not idle.
-- caveat: kernel_delay: from the end of the op before, or the return of the launching call if that is later, the next op took no longer than kernel_delay_ns to start.
-- caveat: device_delay: it took longer: another process has the GPU, its queue is full, or the op waits for an event.
-- caveat: began_before: the op was launched before the recording began, or was the first of its stream and was delayed for longer than all that was recorded before: it waits for what was not recorded.
-- caveat: unknown: a launch that is not in the trace, no op that follows, or a rank without a GPU. What was launched before the recording began (its correlation is lower than that of every recorded launch, and it runs before the first of them on its stream) waits for no host once the first launch is recorded: from there on its gap is the device's.
-- caveat: where kernels follow each other within microseconds, nearly every kernel ends a gap: raise min_gap_ns for large runs (a row takes some 3 KB of memory). idle_causes has the sums.
-- caveat: an op without length still ends a gap and begins another.
-- caveat: where step ranges overlap, a gap belongs to the later step.
-- caveat: lengths are those of the rank's own clock: if the clock stepped during the recording (several rows in clocks), the window or gap around that moment includes the step.
-- caveat: a step's device window ends with the first GPU op of the next one: a delay of that op, such as loading its batch, counts in the previous step. Analyses of host ranges, such as data_loading, count it in the step itself.
WITH gaps AS MATERIALIZED (
    SELECT * FROM tw_gaps({{ param('window') }}, {{ param('per') }}, {{ param('min_gap_ns') }}, {{ param('kernel_delay_ns') }}, 'each')
),
hosted AS MATERIALIZED (
    SELECT gap_id, rank, pid, tid, start_ns, end_ns
    FROM gaps
    WHERE cause NOT IN (SELECT cause FROM tw_gap_causes() WHERE whose = 'device')
),
-- the names of these few ops only: joining all of them would fill the memory
named AS MATERIALIZED (
    SELECT DISTINCT op_id, name
    FROM device_ops
    WHERE op_id IN (SELECT unnest([after_op_id, before_op_id, waited_for_op_id]) FROM gaps)
)
SELECT
    g.rank,
    nullif(g.device, -1) AS device,
    nullif(g.lane, -1) AS stream,
    g.step,
    aligned_ns(g.start_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS start_ns,
    aligned_ns(g.end_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS end_ns,
    g.end_ns - g.start_ns AS duration_ns,
    g.cause,
    h.host_op,
    after_op.name AS after_op,
    before_op.name AS before_op,
    h.host_op_kind,
    h.host_op_ns,
    aligned_ns(g.launch_start_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS launch_start_ns,
    g.sync_op,
    waited_for_op.name AS waited_for_op,
    g.timeline,
    g.after_op_id,
    g.before_op_id,
    g.whole_ns
FROM gaps AS g
LEFT JOIN clock_spans AS c ON c.rank = g.rank AND g.start_ns >= c.from_local_ns AND g.start_ns < c.until_local_ns
LEFT JOIN tw_gap_hosts('hosted') AS h USING (gap_id)
LEFT JOIN named AS after_op ON after_op.op_id = g.after_op_id
LEFT JOIN named AS before_op ON before_op.op_id = g.before_op_id
LEFT JOIN named AS waited_for_op ON waited_for_op.op_id = g.waited_for_op_id
ORDER BY duration_ns DESC, g.rank, device NULLS FIRST, stream NULLS FIRST, start_ns
