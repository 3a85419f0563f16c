-- The public relations. Each begins with a documented header: `-- relation: name | what one row is`, then one
-- `-- column: name TYPE | meaning` per column, in order. The header is checked against the database by a test,
-- written into it as COMMENT ON, and printed by `traceweave schema`. Times are integer nanoseconds.

-- relation: sources | one row per input file
-- column: source_id INTEGER | number of the file in this database
-- column: path VARCHAR | where the file was at ingest
-- column: format VARCHAR | 'kineto', 'nsys', 'capture', 'flight_recorder', 'nccl_log' or 'nccl_inspector'
-- column: producer VARCHAR | what wrote the file: 'PyTorch Profiler', 'Nsight Systems', 'traceweave.capture', 'torch flight recorder', 'NCCL', 'RCCL', 'NCCL Inspector'
-- column: producer_version VARCHAR | version of the producer, if the file has it
-- column: size_bytes BIGINT | size on disk
-- column: events_read BIGINT | events found in the file = events_stored + events_skipped
-- column: events_stored BIGINT | events whose content is in this database
-- column: events_skipped BIGINT | events that are not; ingest_issues counts them by kind
-- column: status VARCHAR | 'ok', 'partial' (something was lost; ingest_issues says whether it was counted) or 'failed' (nothing could be read)
-- column: message VARCHAR | what was wrong; NULL if nothing

-- relation: ingest_issues | one row per source and kind of problem
-- column: source_id INTEGER | the file; NULL if it concerns the run
-- column: kind VARCHAR | short stable name of the trouble
-- column: count BIGINT | how many events it concerns; NULL: not known, as of what lies beyond a cut
-- column: example VARCHAR | one of them
-- column: message VARCHAR | what it means and what was done

-- relation: recording | what the records of a rank cannot support: one row per rank, file and kind; none where all is fit to judge
-- column: rank INTEGER | global rank
-- column: source_id INTEGER | the file
-- column: kind VARCHAR | short stable name of what is wrong
-- column: steps BIGINT[] | the steps it concerns; empty: none in particular
-- column: count BIGINT | how many records it concerns; NULL: not counted
-- column: total BIGINT | of how many in these steps, or in the file; NULL like count
-- column: is_unknown BOOLEAN | whether these steps (without any, the rank) are unknown: they count in no average, no idle time and no cause
-- column: message VARCHAR | what it means for the answers
-- column: advice VARCHAR | how to record so that it does not happen

-- relation: clocks | how to convert a rank's clock to the common one: aligned = local + offset_ns + drift_ppm * 1e-6 * (local - reference_local_ns)
-- column: rank INTEGER | global rank
-- column: from_local_ns BIGINT | start of validity, up to the rank's next row; NULL: from the beginning
-- column: reference_rank INTEGER | the rank whose clock is the common one
-- column: offset_ns BIGINT | added to the local time
-- column: drift_ppm DOUBLE | rate difference, parts per million
-- column: reference_local_ns BIGINT | local time at which offset_ns is exact
-- column: bound_ns BIGINT | the true offset lies within offset_ns +- this: causality proves it, unless ingest_issues has 'causality_contradicts_itself', or more where the ends near reference_local_ns leave more open; NULL if unbounded
-- column: residual_p50_ns BIGINT | median distance of the rank's collective ends from the fit; NULL without anchors
-- column: residual_p95_ns BIGINT | 95th percentile of the same: differences between ranks below this are noise; no more than what clock probes prove, and 20 us where threads of one host time all calls
-- column: anchors BIGINT | matched collectives in the fit, of this row's time; 0 between two anchors around a step of the clock
-- column: method VARCHAR | how the offset was found; 'steps' and 'wander' in it where a clock is more than one line
-- column: status VARCHAR | 'aligned', 'same host', 'wall clock' or 'unaligned'

-- relation: groups | one row per process group (communicator)
-- column: group_id INTEGER | number of the group in this database
-- column: name VARCHAR | the group's own name; NULL if the trace has none
-- column: description VARCHAR | the group's description, for example 'default_pg'
-- column: size INTEGER | number of members
-- column: ranks INTEGER[] | global ranks of the members as far as known, ascending
-- column: role VARCHAR | 'world', 'dp', 'tp', 'pp', 'ep', 'cp' or 'unknown'
-- column: role_source VARCHAR | evidence for the role
-- column: stated_role VARCHAR | what the job itself says the group is for (roles of traceweave.capture): a role, or its own words where they name none; NULL if it says nothing
-- column: membership VARCHAR | what the members rest on: 'stated', 'inferred: ' and how clearly ends prove it, or 'unknown: ' and why

-- relation: ranks | one row per rank
-- column: rank INTEGER | global rank
-- column: source_id INTEGER | first file of the rank
-- column: host VARCHAR | host name; NULL if unknown
-- column: pid BIGINT | process id on that host
-- column: device INTEGER | device number inside the process
-- column: gpu_name VARCHAR | product name of that device
-- column: world_size INTEGER | number of ranks of the job
-- column: backend VARCHAR | communication backend, for example 'nccl'
-- column: nccl_version VARCHAR | NCCL version
-- column: format VARCHAR | 'kineto' or 'nsys'
-- column: first_local_ns BIGINT | first event, rank's own clock
-- column: last_local_ns BIGINT | end of the last event, rank's own clock
-- column: windows BIGINT | profiling windows (files) of this rank
-- column: rank_source VARCHAR | the evidence for the rank number
-- column: tick_ns INTEGER | time resolution of its trace: 1000 where all are whole microseconds, else 1
-- column: launches BIGINT | of a rank without GPU ops: calls that launch kernels, so that it used a GPU whose work was not recorded
-- column: unread_tasks BIGINT | of a rank without GPU ops: tasks of its device in a format that is not read
CREATE VIEW ranks AS
SELECT
    rank,
    min(source_id) AS source_id,
    arg_min(host, source_id) AS host,
    arg_min(pid, source_id) AS pid,
    arg_min(device, source_id) AS device,
    arg_min(gpu_name, source_id) AS gpu_name,
    max(world_size) AS world_size,
    arg_min(backend, source_id) AS backend,
    arg_min(nccl_version, source_id) AS nccl_version,
    arg_min(format, source_id) AS format,
    min(first_local_ns) AS first_local_ns,
    max(last_local_ns) AS last_local_ns,
    count(*) AS windows,
    arg_min(rank_source, source_id) AS rank_source,
    max(tick_ns) AS tick_ns,
    sum(launches)::BIGINT AS launches,
    sum(unread_tasks)::BIGINT AS unread_tasks
FROM base.rank_sources
GROUP BY rank;

-- relation: clock_spans | one row per rank and piece of its clock, with both ends, for every rank: aligned_ns(local_ns, offset_ns, drift_ppm, reference_local_ns) converts a time between them to the common clock
-- column: rank INTEGER | global rank
-- column: from_local_ns BIGINT | start of validity
-- column: until_local_ns BIGINT | end of validity, exclusive
-- column: offset_ns BIGINT | this and the following as in clocks; 0 for a rank that has no row there
-- column: drift_ppm DOUBLE | rate difference, parts per million
-- column: reference_local_ns BIGINT | local time at which offset_ns is exact
-- It is a join from the left where there are many rows, although every rank has a row here: DuckDB expects next to no rows
-- from an inner join on a range of times, and then builds its hash tables on the ops.
CREATE VIEW clock_spans AS
WITH known AS (
    SELECT DISTINCT rank FROM base.rank_sources
)
SELECT
    known.rank,
    CASE WHEN row_number() OVER by_rank = 1 THEN -9223372036854775807
         ELSE coalesce(from_local_ns, -9223372036854775807) END AS from_local_ns,
    coalesce(lead(from_local_ns) OVER by_rank, 9223372036854775807) AS until_local_ns,
    coalesce(offset_ns, 0) AS offset_ns,
    coalesce(drift_ppm, 0) AS drift_ppm,
    coalesce(reference_local_ns, 0) AS reference_local_ns
FROM known LEFT JOIN clocks USING (rank)
WINDOW by_rank AS (PARTITION BY known.rank ORDER BY from_local_ns NULLS FIRST);

-- Internal: the same clocks, one row per rank, for the relations that have millions of rows. Of a join from the left with what
-- is grouped by the key DuckDB expects as many rows as come in; it compares nothing but ranks, and where rows that ask for
-- local times alone are only grouped it leaves the join out. `pieces` is NULL for a clock that is one line, as most are.
CREATE VIEW base.rank_clocks AS
SELECT
    rank,
    any_value(offset_ns) AS offset_ns,
    any_value(drift_ppm) AS drift_ppm,
    any_value(reference_local_ns) AS reference_local_ns,
    CASE WHEN count(*) > 1 THEN
        list({from_local_ns: from_local_ns, offset_ns: offset_ns, drift_ppm: drift_ppm, reference_local_ns: reference_local_ns}
            ORDER BY from_local_ns)
    END AS pieces
FROM clock_spans
GROUP BY rank;

-- Internal: a moment on the common clock, by the piece of the rank's clock that holds at `at_ns`; clock: columns of rank_clocks.
CREATE MACRO base.align_by(local_ns, at_ns, offset_ns, drift_ppm, reference_local_ns, pieces) AS
    CASE WHEN pieces IS NULL THEN aligned_ns(local_ns, offset_ns, drift_ppm, reference_local_ns)
    ELSE list_transform(
        list_filter(pieces, lambda p: p.from_local_ns <= at_ns)[-1:],
        lambda p: aligned_ns(local_ns, p.offset_ns, p.drift_ppm, p.reference_local_ns)
    )[1] END;

-- relation: steps | one row per rank and training step
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number
-- column: start_ns BIGINT | start of the host's step range, common clock
-- column: end_ns BIGINT | end of the host's step range, common clock
-- column: duration_ns BIGINT | length of the host's step range on the rank's own clock
-- column: device_start_ns BIGINT | start of the step's first GPU op; NULL if it has none
-- column: device_end_ns BIGINT | start of the next step's first GPU op; for the last step the end of its last op. The only step of a rank lasts as long as its range on the host, where its GPU ops take less than half of that
-- column: source VARCHAR | what marks the step: 'ProfilerStep', 'engine' (a batch of an inference engine), 'nvtx' (any other range), 'module' (the model's calls), or 'inferred' from repeating kernels where nothing does
-- column: start_local_ns BIGINT | start of the host's step range, rank's own clock
-- column: device_start_local_ns BIGINT | device_start_ns on the rank's own clock
-- column: device_end_local_ns BIGINT | device_end_ns on the rank's own clock
-- column: kind VARCHAR | what an inference engine runs in it: 'prefill', 'decode', 'mixed' ...; NULL where it does not say
CREATE VIEW steps AS
SELECT
    s.rank,
    s.step,
    aligned_ns(s.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS start_ns,
    aligned_ns(s.start_local_ns + s.duration_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS end_ns,
    s.duration_ns,
    aligned_ns(s.device_start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS device_start_ns,
    aligned_ns(s.device_end_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS device_end_ns,
    s.source,
    s.start_local_ns,
    s.device_start_local_ns,
    s.device_end_local_ns,
    s.kind
FROM base.steps AS s
JOIN clock_spans AS c
    ON s.rank = c.rank AND s.start_local_ns >= c.from_local_ns AND s.start_local_ns < c.until_local_ns;

-- relation: gpu_ops | one row per kernel, copy or memset on a GPU
-- column: rank INTEGER | global rank
-- column: op_id BIGINT | unique in this database
-- column: kind VARCHAR | 'kernel', 'memcpy' or 'memset'
-- column: category VARCHAR | 'compute', 'communication' or 'memory'
-- column: class VARCHAR | kind of work: gemm, attention, conv, norm, softmax, elementwise, reduction, embedding, optimizer, loss, copy, memset, indexing, sort_scan, random, moe, quantization, fft, triton (fused pointwise work), collective, p2p, other
-- column: class_source VARCHAR | what decided the class of a kernel: 'operator' (the one that launched it), else 'name'; NULL for copies and memsets
-- column: name VARCHAR | kernel name, or the profiler's name of the copy
-- column: device INTEGER | device number inside the process
-- column: stream BIGINT | CUDA or HIP stream
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length as the profiler measured it
-- column: start_local_ns BIGINT | start, rank's own clock
-- column: step BIGINT | step in which it was launched; NULL if it was launched outside any, and if the launch was not recorded (launch_op_id is NULL too)
-- column: correlation BIGINT | the profiler's link to the launching call
-- column: launch_op_id BIGINT | host_ops.op_id of the launching call; NULL if not recorded
-- column: bytes BIGINT | bytes copied or set
-- column: copy_kind VARCHAR | 'HtoD', 'DtoH', 'DtoD', 'PtoP' ...; NULL for kernels
-- column: collective_id BIGINT | the collective instance that this kernel executes; NULL if none or not matched
-- column: graph_node BIGINT | CUDA graph node; NULL if launched directly
-- column: context BIGINT | CUDA context
-- column: source_id INTEGER | file it comes from
-- column: args JSON | all other fields of the event in the trace
-- column: launch_start_ns BIGINT | start of the launching call, common clock; this and what follows: NULL if it is not recorded
-- column: launch_end_ns BIGINT | end of the launching call, common clock
-- column: launch_duration_ns BIGINT | length of the launching call
-- column: launch_start_local_ns BIGINT | start of the launching call, rank's own clock
-- column: launch_pid BIGINT | process that launched it
-- column: launch_tid BIGINT | thread that launched it
-- column: launch_call VARCHAR | name of the launching call
CREATE VIEW gpu_ops AS
SELECT
    o.rank,
    o.op_id,
    o.kind,
    o.category,
    o.class,
    o.class_source,
    o.name,
    o.device,
    o.stream,
    base.align_by(o.start_local_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS start_ns,
    base.align_by(o.start_local_ns + o.duration_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS end_ns,
    o.duration_ns,
    o.start_local_ns,
    o.step,
    o.correlation,
    o.launch_op_id,
    o.bytes,
    o.copy_kind,
    m.collective_id,
    o.graph_node,
    o.context,
    o.source_id,
    o.args,
    base.align_by(o.launch_start_local_ns, o.launch_start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS launch_start_ns,
    base.align_by(o.launch_start_local_ns + o.launch_duration_ns, o.launch_start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces)
        AS launch_end_ns,
    o.launch_duration_ns,
    o.launch_start_local_ns,
    o.launch_pid,
    o.launch_tid,
    o.launch_call
FROM base.gpu_ops AS o
LEFT JOIN base.rank_clocks AS c ON c.rank = o.rank
LEFT JOIN (
    SELECT calls.op_id, min(matches.collective_id) AS collective_id
    FROM (
        SELECT gpu_op_id AS op_id, call_id FROM base.collective_calls WHERE gpu_op_id IS NOT NULL
        UNION ALL
        SELECT receive_op_id AS op_id, call_id FROM base.collective_calls WHERE receive_op_id IS NOT NULL
    ) AS calls
    JOIN base.matches USING (call_id)
    GROUP BY calls.op_id
) AS m ON m.op_id = o.op_id
WHERE o.rank IS NOT NULL;

-- relation: host_ops | one row per operator, annotation, API call or range on the host
-- column: rank INTEGER | global rank; NULL for a process that is not a rank
-- column: op_id BIGINT | unique in this database
-- column: kind VARCHAR | 'op', 'annotation', 'python', 'runtime', 'driver', 'nvtx', 'os' or 'mpi'
-- column: name VARCHAR | as the profiler wrote it
-- column: pid BIGINT | process id
-- column: tid BIGINT | thread id
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length as the profiler measured it
-- column: depth INTEGER | how many ranges of the same thread are open around it
-- column: parent_id BIGINT | op_id of the innermost of them; NULL at the top
-- column: step BIGINT | step in which it started; NULL outside any step
-- column: correlation BIGINT | link to the GPU work it launched
-- column: sequence BIGINT | autograd sequence number, the same forward and backward
-- column: arguments_hash BIGINT | the same for calls of an operator with the same shapes, types and values of arguments; NULL if none were recorded (record_shapes)
-- column: start_local_ns BIGINT | start, rank's own clock
-- column: source_id INTEGER | file it comes from
-- column: args JSON | all other fields of the event in the trace
CREATE VIEW host_ops AS
SELECT
    o.rank,
    o.op_id,
    o.kind,
    o.name,
    o.pid,
    o.tid,
    base.align_by(o.start_local_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS start_ns,
    base.align_by(o.start_local_ns + o.duration_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS end_ns,
    o.duration_ns,
    o.depth,
    o.parent_id,
    o.step,
    o.correlation,
    o.sequence,
    o.arguments_hash,
    o.start_local_ns,
    o.source_id,
    o.args
FROM base.host_ops AS o
LEFT JOIN base.rank_clocks AS c ON c.rank = o.rank;

-- relation: collectives | one row per rank and collective or point-to-point operation
-- column: rank INTEGER | global rank
-- column: collective_id BIGINT | the same value on all ranks of one instance; NULL if unmatched
-- column: group_id INTEGER | process group
-- column: op VARCHAR | all_reduce, all_gather, reduce_scatter, all_to_all, dispatch, combine, broadcast, reduce, gather, scatter, send, recv, barrier or unknown
-- column: seq BIGINT | sequence number in the group, from the trace
-- column: dtype VARCHAR | element type as the trace names it
-- column: bytes BIGINT | size S as nccl-tests defines it (the whole buffer); NULL if the trace does not say
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length as the profiler measured it, waiting included; of a matched send or recv of gloo, until it was over on either side, not until somebody waited for it
-- column: start_local_ns BIGINT | start, rank's own clock
-- column: stream BIGINT | stream or host thread it ran on
-- column: gpu_op_id BIGINT | the kernel that executed it; NULL for a host backend such as gloo
-- column: receive_op_id BIGINT | of an operation that is two kernels, a send half and a receive half (DeepEP with receive hooks), the second: the operation lasts from the start of gpu_op_id to the end of this, whatever runs in between; NULL of others
-- column: host_op_id BIGINT | the host operation that issued it
-- column: step BIGINT | step in which it was issued
-- column: match VARCHAR | how it was matched over ranks: 'seq', 'order', 'sequence-aligned' or 'unmatched'
-- column: call_id BIGINT | unique per row
-- column: peer INTEGER | the other rank of a send or recv
-- column: evidence VARCHAR | evidence that this is a collective: 'metadata', 'nvtx', 'host op' or 'name'
-- column: inferred VARCHAR | which columns rest on other files or ranks, and how: 'group, seq by flight recorder', 'peer by communicator'; NULL: the rank's own trace states all. group_id and collective_id are always of all ranks
CREATE VIEW collectives AS
SELECT
    k.rank,
    m.collective_id,
    m.group_id,
    coalesce(k.kind, k.op) AS op,
    k.seq,
    k.dtype,
    k.bytes,
    aligned_ns(k.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS start_ns,
    aligned_ns(k.start_local_ns + k.duration_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS end_ns,
    k.duration_ns,
    k.start_local_ns,
    k.stream,
    k.gpu_op_id,
    k.receive_op_id,
    k.host_op_id,
    k.step,
    coalesce(m.match, 'unmatched') AS match,
    k.call_id,
    k.peer,
    k.evidence,
    k.inferred
FROM base.known_calls AS k
JOIN clock_spans AS c
    ON k.rank = c.rank AND k.start_local_ns >= c.from_local_ns AND k.start_local_ns < c.until_local_ns
LEFT JOIN base.matches AS m USING (call_id);

-- Internal: busbw / algbw of an operation on this many ranks, as nccl-tests defines it (PERFORMANCE.md of NVIDIA/nccl-tests);
-- NULL for operations that it does not define or if ranks is unknown.
CREATE MACRO base.bus_factor(op, ranks) AS
    CASE
        WHEN op = 'all_reduce' THEN 2 * (ranks - 1) / ranks
        WHEN op IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter') THEN (ranks - 1) / ranks
        WHEN op IN ('broadcast', 'reduce', 'send_recv') AND ranks IS NOT NULL THEN CAST(1 AS DOUBLE)
    END;

-- relation: collective_instances | one row per matched collective operation of the whole run
-- column: collective_id BIGINT | unique per instance
-- column: op VARCHAR | which operation ('send_recv' for a send with its recv)
-- column: group_id INTEGER | process group
-- column: ranks_seen BIGINT | ranks that recorded it
-- column: ranks_expected INTEGER | members of the group; NULL if unknown
-- column: bytes BIGINT | size S as nccl-tests defines it
-- column: first_start_ns BIGINT | first rank's start, common clock
-- column: last_start_ns BIGINT | last rank's start
-- column: first_end_ns BIGINT | first rank's end
-- column: last_end_ns BIGINT | last rank's end
-- column: arrival_skew_ns BIGINT | last_start_ns - first_start_ns
-- column: transfer_ns BIGINT | last_end_ns - last_start_ns; where complete is not true, waiting for a rank that was not recorded may be part of it; of a buffered message only what the receiver still had to do
-- column: wait_total_ns BIGINT | sum over the ranks of last_start_ns - start_ns; 0 where is_buffered: nobody waited
-- column: last_rank INTEGER | the rank that arrived last
-- column: algbw_gbps DOUBLE | bytes / transfer_ns, decimal GB/s; a lower bound where complete is not true; NULL where is_buffered
-- column: busbw_gbps DOUBLE | algbw_gbps times bus_factor
-- column: complete BOOLEAN | every expected rank was seen; NULL if the size of the group is unknown
-- column: step BIGINT | step in which most ranks issued it
-- column: transfer_min_ns BIGINT | shortest duration over the ranks: the transfer time without any clock
-- column: below_resolution BOOLEAN | the arrival skew, first to last, is below the clock resolution
-- column: resolution_ns BIGINT | clock resolution: the largest residual_p95_ns of the ranks that took part, and no less than the tick_ns of their traces; NULL if one of them has no residual
-- column: last_delay_ns BIGINT | from the start of the last but one to that of last_rank; NULL if one rank was seen
-- column: last_is_known BOOLEAN | the clocks resolve which rank came last: last_delay_ns is not below resolution_ns, and not 0; false where is_buffered: nobody waited for it
-- column: bus_factor DOUBLE | busbw / algbw of the operation as nccl-tests defines it; NULL where it does not, or the size of the group is unknown
-- column: is_buffered BOOLEAN | a message whose send was over before its receive began, by more than resolution_ns (by anything, where that is NULL): the library had room for it, so that neither side waited for the other
CREATE VIEW collective_instances AS
WITH per_instance AS (
    SELECT
        k.collective_id,
        CASE WHEN min(k.op) = 'recv' AND max(k.op) = 'send' THEN 'send_recv' ELSE min(k.op) END AS op,
        min(k.group_id) AS group_id,
        count(DISTINCT k.rank) AS ranks_seen,
        max(k.bytes) AS bytes,
        min(k.start_ns) AS first_start_ns,
        max(k.start_ns) AS last_start_ns,
        max(k.start_ns, 2)[2] AS last_but_one_ns,
        min(k.end_ns) AS first_end_ns,
        max(k.end_ns) AS last_end_ns,
        max(k.end_ns) FILTER (k.op = 'send') AS sent_ns,
        min(k.start_ns) FILTER (k.op = 'recv') AS received_from_ns,
        CAST(sum(k.start_ns - t.origin_ns) AS BIGINT) AS starts_sum_ns,
        any_value(t.origin_ns) AS origin_ns,
        arg_max(k.rank, (k.start_ns, -k.rank)) AS last_rank,
        mode(k.step) AS step,
        min(k.duration_ns) AS transfer_min_ns,
        CASE WHEN count(r.residual_p95_ns) = count(*) THEN max(greatest(r.residual_p95_ns, r.tick_ns)) END AS resolution_ns
    FROM collectives AS k
    CROSS JOIN (SELECT min(first_local_ns) AS origin_ns FROM base.rank_sources) AS t
    LEFT JOIN (
        SELECT rank, c.residual_p95_ns, t.tick_ns
        FROM (SELECT rank, max(residual_p95_ns) AS residual_p95_ns FROM clocks GROUP BY rank) AS c
        LEFT JOIN (SELECT rank, nullif(max(tick_ns), 1) AS tick_ns FROM base.rank_sources GROUP BY rank) AS t USING (rank)
    ) AS r ON r.rank = k.rank
    WHERE k.collective_id IS NOT NULL
    GROUP BY k.collective_id
),
timed AS (
    SELECT
        i.*,
        CASE WHEN i.op = 'send_recv' THEN 2 ELSE g.size END AS ranks_expected,
        last_start_ns - first_start_ns AS arrival_skew_ns,
        last_end_ns - last_start_ns AS transfer_ns,
        last_start_ns - last_but_one_ns AS last_delay_ns,
        coalesce(op = 'send_recv' AND sent_ns < received_from_ns - coalesce(resolution_ns, 0), FALSE) AS is_buffered,
        CASE WHEN NOT is_buffered THEN bytes / nullif(greatest(transfer_ns, 0), 0) END AS algbw_gbps
    FROM per_instance AS i LEFT JOIN groups AS g USING (group_id)
)
SELECT
    collective_id,
    op,
    group_id,
    ranks_seen,
    ranks_expected,
    bytes,
    first_start_ns,
    last_start_ns,
    first_end_ns,
    last_end_ns,
    arrival_skew_ns,
    transfer_ns,
    CASE WHEN is_buffered THEN 0 ELSE ranks_seen * (last_start_ns - origin_ns) - starts_sum_ns END AS wait_total_ns,
    last_rank,
    algbw_gbps,
    algbw_gbps * base.bus_factor(op, ranks_expected) AS busbw_gbps,
    ranks_seen = ranks_expected AS complete,
    step,
    transfer_min_ns,
    coalesce(arrival_skew_ns < resolution_ns, TRUE) AS below_resolution,
    resolution_ns,
    last_delay_ns,
    coalesce(last_delay_ns > 0 AND last_delay_ns >= resolution_ns AND NOT is_buffered, FALSE) AS last_is_known,
    base.bus_factor(op, ranks_expected) AS bus_factor,
    is_buffered
FROM timed;

-- relation: collective_waits | one row per rank and matched collective: how long it waited, and for which rank
-- column: collective_id BIGINT | the instance
-- column: rank INTEGER | global rank
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group
-- column: step BIGINT | step in which this rank issued it
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length as the profiler measured it
-- column: wait_ns BIGINT | from this rank's start to the last rank's start, common clock; 0 of a message that was buffered (is_buffered of collective_instances)
-- column: wait_free_ns BIGINT | duration_ns minus the shortest duration over the ranks: the wait without any clock
-- column: is_last BOOLEAN | this rank arrived last
-- column: last_rank INTEGER | the rank that arrived last
-- column: start_local_ns BIGINT | start, rank's own clock
CREATE VIEW collective_waits AS
SELECT
    k.collective_id,
    k.rank,
    i.op,
    i.group_id,
    k.step,
    k.start_ns,
    k.end_ns,
    k.duration_ns,
    CASE WHEN i.is_buffered THEN 0 ELSE i.last_start_ns - k.start_ns END AS wait_ns,
    k.duration_ns - i.transfer_min_ns AS wait_free_ns,
    k.rank = i.last_rank AS is_last,
    i.last_rank,
    k.start_local_ns
FROM collectives AS k JOIN collective_instances AS i USING (collective_id);

-- Internal: whether the ranks of a run have no GPU: what one launches without a record of it is no work of the CPU.
CREATE MACRO base.runs_on_cpu() AS
    NOT EXISTS (FROM base.gpu_ops WHERE rank IS NOT NULL)
    AND NOT EXISTS (FROM base.rank_sources WHERE launches > 0 OR unread_tasks > 0);

-- relation: device_ops | the timeline that breakdown and gaps are computed on: a rank's GPU ops, or, in a run without a GPU, its CPU operators and host collectives; a rank without GPU ops has no rows in a run that has some or launches some, nor has one that recording calls unknown
-- column: rank INTEGER | global rank
-- column: timeline VARCHAR | 'gpu' or 'cpu'
-- column: op_id BIGINT | gpu_ops.op_id or host_ops.op_id; on the CPU the parts of an operator share it, between which its thread waited for a collective
-- column: category VARCHAR | 'compute', 'communication' or 'memory'
-- column: name VARCHAR | kernel or operator
-- column: device INTEGER | device number; NULL on the CPU
-- column: stream BIGINT | stream, or thread on the CPU
-- column: step BIGINT | step in which it was launched
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: launch_op_id BIGINT | host_ops.op_id of the launching call
-- column: duration_ns BIGINT | length as the profiler measured it
-- column: start_local_ns BIGINT | start, rank's own clock
-- column: launch_start_local_ns BIGINT | start of the launching call, rank's own clock; NULL if it is not recorded, and on the CPU
-- column: launch_duration_ns BIGINT | length of the launching call
CREATE VIEW device_ops AS
SELECT
    o.rank, 'gpu' AS timeline, o.op_id, o.category, o.name, o.device, o.stream, o.step,
    base.align_by(o.start_local_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS start_ns,
    base.align_by(o.start_local_ns + o.duration_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS end_ns,
    o.launch_op_id, o.duration_ns, o.start_local_ns,
    o.launch_start_local_ns, o.launch_duration_ns
FROM base.gpu_ops AS o
LEFT JOIN base.rank_clocks AS c ON c.rank = o.rank
WHERE o.rank IS NOT NULL AND o.rank NOT IN (SELECT rank FROM recording WHERE is_unknown AND steps = [])
UNION ALL
SELECT
    h.rank, 'cpu' AS timeline, h.op_id, 'compute' AS category, h.name, NULL AS device, h.tid AS stream, h.step,
    h.start_ns, h.end_ns, NULL AS launch_op_id, h.duration_ns, h.start_local_ns,
    NULL AS launch_start_local_ns, NULL AS launch_duration_ns
FROM host_ops AS h
WHERE h.kind = 'op'
    AND h.rank IS NOT NULL
    AND base.runs_on_cpu()
    AND h.op_id NOT IN (SELECT host_op_id FROM base.collective_calls WHERE host_op_id IS NOT NULL)
    AND h.op_id NOT IN (SELECT op_id FROM base.op_parts)
UNION ALL
SELECT
    h.rank, 'cpu' AS timeline, h.op_id, 'compute' AS category, h.name, NULL AS device, h.tid AS stream, h.step,
    base.align_by(p.start_local_ns, p.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS start_ns,
    base.align_by(p.start_local_ns + p.duration_ns, p.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS end_ns,
    NULL AS launch_op_id, p.duration_ns, p.start_local_ns,
    NULL AS launch_start_local_ns, NULL AS launch_duration_ns
FROM base.op_parts AS p
JOIN base.host_ops AS h USING (op_id)
LEFT JOIN base.rank_clocks AS c ON c.rank = h.rank
WHERE p.duration_ns > 0 AND h.rank IS NOT NULL AND base.runs_on_cpu()
UNION ALL
SELECT
    k.rank, 'cpu' AS timeline, k.host_op_id AS op_id, 'communication' AS category, k.op AS name, NULL AS device,
    k.stream, k.step, k.start_ns, k.end_ns, NULL AS launch_op_id, k.duration_ns, k.start_local_ns,
    NULL AS launch_start_local_ns, NULL AS launch_duration_ns
FROM collectives AS k
WHERE k.gpu_op_id IS NULL AND base.runs_on_cpu();

-- relation: memory_events | one row per allocation or release that the profiler recorded
-- column: rank INTEGER | global rank
-- column: device VARCHAR | device as the trace names it
-- column: name VARCHAR | 'alloc', 'free' or the profiler's own name
-- column: at_ns BIGINT | when, common clock
-- column: value BIGINT | bytes, negative for a release
-- column: unit VARCHAR | 'bytes'
-- column: address BIGINT | address of the block
-- column: total_allocated_bytes BIGINT | allocated after the event, as the allocator counts it
-- column: total_reserved_bytes BIGINT | reserved after the event
-- column: op_id BIGINT | unique in this database
-- column: args JSON | all other fields of the event in the trace
-- column: at_local_ns BIGINT | when, rank's own clock
CREATE VIEW memory_events AS
SELECT
    e.rank, e.device, e.name,
    aligned_ns(e.at_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS at_ns,
    e.value, 'bytes' AS unit, e.address, e.total_allocated_bytes, e.total_reserved_bytes, e.op_id, e.args, e.at_local_ns
FROM base.memory_events AS e
LEFT JOIN clock_spans AS c
    ON e.rank = c.rank AND e.at_local_ns >= c.from_local_ns AND e.at_local_ns < c.until_local_ns;

-- relation: counters | one row per sampled value
-- column: rank INTEGER | global rank; NULL if it belongs to the host
-- column: device VARCHAR | device as the trace names it
-- column: name VARCHAR | which counter
-- column: at_ns BIGINT | when, common clock
-- column: value DOUBLE | the value
-- column: unit VARCHAR | its unit; NULL if the trace does not say
-- column: op_id BIGINT | event it comes from
CREATE VIEW counters AS
SELECT
    e.rank, e.device, e.name,
    aligned_ns(e.at_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS at_ns,
    e.value, e.unit, e.op_id
FROM base.counters AS e
LEFT JOIN clock_spans AS c
    ON e.rank = c.rank AND e.at_local_ns >= c.from_local_ns AND e.at_local_ns < c.until_local_ns;

-- relation: flows | one row per arrow between two ops
-- column: rank INTEGER | global rank
-- column: kind VARCHAR | 'launch' (host call to GPU op), 'fwdbwd' (forward to backward operator) or the name in the trace
-- column: from_op_id BIGINT | where it starts
-- column: to_op_id BIGINT | where it ends
CREATE VIEW flows AS
SELECT rank, 'launch' AS kind, launch_op_id AS from_op_id, op_id AS to_op_id
FROM base.gpu_ops WHERE launch_op_id IS NOT NULL
UNION ALL
SELECT rank, kind, from_op_id, to_op_id FROM base.flows;

-- relation: other_events | every event that has no table of its own: marks, metadata, GPU annotations, synchronization records, profiler overhead
-- column: rank INTEGER | global rank
-- column: op_id BIGINT | unique in this database
-- column: phase VARCHAR | Chrome trace phase (X, i, M ...), or 'nsys'
-- column: category VARCHAR | category as the trace names it, or the nsys table
-- column: name VARCHAR | as the trace names it
-- column: pid VARCHAR | process as the trace names it
-- column: tid VARCHAR | thread or stream as the trace names it
-- column: start_ns BIGINT | start, common clock; NULL if it has no time
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length; NULL for an instant
-- column: start_local_ns BIGINT | start, rank's own clock
-- column: source_id INTEGER | file it comes from
-- column: args JSON | all other fields of the event in the trace
CREATE VIEW other_events AS
SELECT
    e.rank, e.op_id, e.phase, e.category, e.name, e.pid, e.tid,
    aligned_ns(e.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS start_ns,
    aligned_ns(e.start_local_ns + e.duration_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS end_ns,
    e.duration_ns, e.start_local_ns, e.source_id, e.args
FROM base.other_events AS e
LEFT JOIN clock_spans AS c
    ON e.rank = c.rank AND coalesce(e.start_local_ns, 0) >= c.from_local_ns AND coalesce(e.start_local_ns, 0) < c.until_local_ns;

-- relation: flight_calls | one row per rank and operation in its flight recorder's dump: what process groups did last
-- column: rank INTEGER | global rank
-- column: record_id BIGINT | number of the record in its process, in the order in which operations were issued
-- column: group_id INTEGER | process group; NULL if its members are not known
-- column: group_name VARCHAR | the group's own name
-- column: group_desc VARCHAR | the group's description, for example 'default_pg'
-- column: group_ranks INTEGER[] | global ranks of the members, ascending; NULL if not known
-- column: seq BIGINT | number of a collective in its group; for a send or recv that of the collective before it
-- column: p2p_seq BIGINT | number of a send or recv, as its rank counts them in the group
-- column: is_p2p BOOLEAN | whether it is a send or recv
-- column: op VARCHAR | all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, send, recv, barrier or unknown
-- column: name VARCHAR | as the recorder names it
-- column: peer INTEGER | the other rank of a send or recv
-- column: input_sizes BIGINT[][] | shape of each input
-- column: input_dtypes VARCHAR[] | element type of each input
-- column: output_sizes BIGINT[][] | shape of each output
-- column: output_dtypes VARCHAR[] | element type of each output
-- column: state VARCHAR | 'scheduled', 'started' or 'completed', as last noticed; gloo leaves it at 'scheduled'
-- column: pending BOOLEAN | whether it was under way when the dump was made
-- column: created_ns BIGINT | when the host issued it, common clock
-- column: created_local_ns BIGINT | the same on the rank's own clock
-- column: duration_ns BIGINT | length, if the job measured it (TORCH_NCCL_ENABLE_TIMING=1)
-- column: timeout_ns BIGINT | after how long the job gives up
-- column: call_id BIGINT | the same operation in collectives, where a trace has it too
-- column: source_id INTEGER | file it comes from
CREATE VIEW flight_calls AS
SELECT
    f.rank, f.record_id, g.group_id, f.group_name, f.group_desc, f.group_ranks, f.seq, f.p2p_seq, f.is_p2p, f.op, f.name,
    f.group_ranks[f.peer_place + 1] AS peer,
    f.input_sizes, f.input_dtypes, f.output_sizes, f.output_dtypes, f.state,
    coalesce(NOT retired, true) AND state IS DISTINCT FROM 'completed' AND completed_local_ns IS NULL AS pending,
    aligned_ns(f.created_local_ns, coalesce(c.offset_ns, 0), coalesce(c.drift_ppm, 0), coalesce(c.reference_local_ns, 0)) AS created_ns,
    f.created_local_ns, f.duration_ns, f.timeout_ns, f.call_id, f.source_id
FROM base.flight_calls AS f
LEFT JOIN groups AS g ON g.name = f.group_name AND g.ranks = f.group_ranks
LEFT JOIN clock_spans AS c
    ON f.rank = c.rank AND coalesce(f.created_local_ns, 0) >= c.from_local_ns AND coalesce(f.created_local_ns, 0) < c.until_local_ns;

-- relation: flight_groups | one row per rank and process group in its flight recorder's dump: how far the rank has come in it
-- column: rank INTEGER | global rank
-- column: group_id INTEGER | process group; NULL if its members are not known
-- column: group_name VARCHAR | the group's own name
-- column: group_desc VARCHAR | the group's description
-- column: group_ranks INTEGER[] | global ranks of the members, ascending; NULL if not known
-- column: last_enqueued BIGINT | number of the last operation that the rank issued there (a send or recv has its own count); -1: none; NULL if the dump does not say
-- column: last_started BIGINT | of the last one that began; -1: none, or the job does not watch it
-- column: last_completed BIGINT | of the last one that finished; -1: none
-- column: source_id INTEGER | file it comes from
CREATE VIEW flight_groups AS
SELECT f.rank, g.group_id, f.group_name, f.group_desc, f.group_ranks, f.last_enqueued, f.last_started, f.last_completed, f.source_id
FROM base.flight_groups AS f
LEFT JOIN groups AS g ON g.name = f.group_name AND g.ranks = f.group_ranks;

-- relation: communicators | one row per NCCL communicator that NCCL's logs or its Inspector tell of, over all its processes; one whose processes do not say which is the same on others has a row for each of them
-- column: communicator VARCHAR | its hash, with the number and color of a split after it; a name of this database ('file 3 communicator 0') where the log has no hash
-- column: name VARCHAR | the name that the program gave it; NULL if it is not recorded
-- column: size INTEGER | number of members
-- column: ranks INTEGER[] | global rank of each member, in the communicator's own order; NULL for one that is not known
-- column: known BIGINT | members whose global rank is known
-- column: group_id INTEGER | process group; NULL if none fits, or several do
-- column: group_ids INTEGER[] | all process groups that fit: as large, and with the known members at their places
-- column: nodes INTEGER | hosts it lies over
-- column: channels INTEGER | channels for collectives
-- column: nvls_channels INTEGER | of them for NVLS, the reduction inside NVLink switches; 0: it is not used
-- column: p2p_channels INTEGER | channels for send and recv
-- column: network VARCHAR | network plug-in, as 'IB' or 'Socket'
-- column: devices VARCHAR | network devices that its processes found, separated by commas
-- column: hosts VARCHAR[] | hosts of the processes that recorded it
CREATE VIEW communicators AS
WITH known AS (
    SELECT *, coalesce(identity, format('file {} communicator {}', source_id, number)) AS communicator FROM base.nccl_communicators
),
places AS (
    SELECT communicator, size, place, any_value(rank) AS rank FROM known GROUP BY ALL HAVING count(DISTINCT rank) = 1
),
-- a trace that has hashes itself names the group, whoever its members are
hashed AS (
    SELECT DISTINCT k.comm_id AS communicator, m.group_id
    FROM base.collective_calls AS k JOIN base.matches AS m USING (call_id)
    WHERE k.comm_id IN (SELECT identity FROM base.nccl_communicators) AND m.group_id IS NOT NULL
),
fitting AS (
    SELECT p.communicator, g.group_id
    FROM places AS p JOIN groups AS g ON g.size = p.size AND len(g.ranks) = p.size
    WHERE p.communicator NOT IN (SELECT communicator FROM hashed)
    GROUP BY p.communicator, g.group_id
    HAVING bool_and(g.ranks[p.place + 1] = p.rank)
    UNION ALL
    FROM hashed
),
assigned AS (
    SELECT communicator, list(group_id ORDER BY group_id) AS group_ids FROM fitting GROUP BY communicator
),
members AS (
    SELECT communicator, map_from_entries(list((place, rank))) AS rank_of, count(*) AS known FROM places GROUP BY communicator
)
SELECT
    k.communicator,
    any_value(k.name) AS name,
    any_value(k.size) AS size,
    list_transform(range(any_value(k.size)::BIGINT), lambda place: any_value(m.rank_of)[place::INTEGER])::INTEGER[] AS ranks,
    coalesce(any_value(m.known), 0) AS known,
    CASE WHEN len(any_value(a.group_ids)) = 1 THEN any_value(a.group_ids)[1] END AS group_id,
    coalesce(any_value(a.group_ids), []) AS group_ids,
    any_value(k.nodes) AS nodes,
    any_value(k.channels) AS channels,
    any_value(k.nvls_channels) AS nvls_channels,
    any_value(k.p2p_channels) AS p2p_channels,
    any_value(k.network) AS network,
    array_to_string(list_sort(list_distinct(flatten(list(string_split(k.devices, ','))))), ',') AS devices,
    list(DISTINCT k.host ORDER BY k.host) FILTER (k.host IS NOT NULL) AS hosts
FROM known AS k
LEFT JOIN members AS m USING (communicator)
LEFT JOIN assigned AS a USING (communicator)
GROUP BY k.communicator;

-- relation: nccl_choices | one row per file, process, operation, size, what NCCL ran for it as its log says (NCCL_DEBUG_SUBSYS=TUNING, written by rank 0 of a communicator alone), and communicator that the lines may be of
-- column: communicator VARCHAR | as in communicators: one in which the process is rank 0 and, where calls are logged too, had such a call; NULL if none is known
-- column: possible BIGINT | how many communicators the lines may be of: 1 is certain; of more there are as many rows with the same lines; 0: none is known
-- column: group_id INTEGER | process group of the communicator; NULL if none fits, or several do
-- column: group_ids INTEGER[] | all process groups that fit; NULL if no communicator is known
-- column: op VARCHAR | which operation; NULL in logs of NCCL before 2.23, which do not say
-- column: bytes BIGINT | size S as nccl-tests defines it (the whole buffer); NULL if it depends on a communicator that is not known
-- column: algorithm VARCHAR | as NCCL names it: RING, TREE, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT; SYMMETRIC and a kernel's name; COPY_ENGINE
-- column: protocol VARCHAR | LL, LL128 or SIMPLE; NULL where the algorithm has none
-- column: channels INTEGER | channels used; NULL if the log does not say
-- column: lines BIGINT | how often the log says so
-- column: logged_bytes BIGINT | bytes as the log has them: since NCCL 2.24 those of one rank, where each rank has a part of its own
-- column: host VARCHAR | host of the process
-- column: pid BIGINT | its process id
-- column: line BIGINT | first line of the log that says so
-- column: source_id INTEGER | file it comes from
CREATE VIEW nccl_choices AS
SELECT
    o.communicator, coalesce(len(c.numbers), 0) AS possible, o.group_id, o.group_ids, c.op,
    c.bytes * CASE WHEN c.per_rank AND c.op IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter') THEN k.size ELSE 1 END AS bytes,
    c.algorithm, c.protocol, c.channels, c.chosen AS lines, c.bytes AS logged_bytes, c.host, c.pid, c.line, c.source_id
FROM (
    SELECT *, unnest(CASE WHEN numbers = [] THEN [NULL] ELSE numbers END) AS number FROM base.nccl_choices
) AS c
LEFT JOIN base.nccl_communicators AS k USING (source_id, number)
LEFT JOIN communicators AS o ON o.communicator = coalesce(k.identity, format('file {} communicator {}', k.source_id, k.number));

-- relation: nccl_calls | one row per file, process, communicator, operation, size and type: how often the job called NCCL for it, as its log says (NCCL_DEBUG_SUBSYS=COLL)
-- column: rank INTEGER | global rank of the process; NULL if it is not known
-- column: communicator VARCHAR | as in communicators; NULL if the log lacks its beginning
-- column: group_id INTEGER | process group of the communicator; NULL if either is not known
-- column: op VARCHAR | which operation
-- column: count BIGINT | elements, as they are given to NCCL: of one rank for operations with a part for each
-- column: dtype VARCHAR | type of the elements
-- column: bytes BIGINT | of these elements
-- column: calls BIGINT | how often
-- column: host VARCHAR | host of the process
-- column: pid BIGINT | its process id
-- column: source_id INTEGER | file it comes from
CREATE VIEW nccl_calls AS
SELECT
    k.rank, o.communicator, o.group_id, c.op, c."count", c.dtype, c.bytes, c.calls, c.host, c.pid, c.source_id
FROM base.nccl_calls AS c
LEFT JOIN base.nccl_communicators AS k USING (source_id, number)
LEFT JOIN communicators AS o ON o.communicator = coalesce(k.identity, format('file {} communicator {}', k.source_id, k.number));

-- relation: nccl_inspected | one row per operation of one process that NCCL Inspector measured
-- column: rank INTEGER | global rank of the process; NULL if it is not known
-- column: communicator VARCHAR | as in communicators
-- column: group_id INTEGER | process group of the communicator; NULL if none fits, or several do
-- column: op VARCHAR | which operation
-- column: nth BIGINT | number of the operation among those of its kind in the communicator: the same on all its ranks
-- column: peer INTEGER | the other rank of a send or recv; NULL if it is not known
-- column: bytes BIGINT | size S as nccl-tests defines it (the whole buffer)
-- column: duration_ns BIGINT | length of its kernel as Inspector measured it, in whole microseconds, waiting included
-- column: timing VARCHAR | what measured it: 'kernel_gpu', 'kernel_cpu' or 'collective_cpu'
-- column: algbw_gbps DOUBLE | as Inspector states it, decimal GB/s
-- column: busbw_gbps DOUBLE | as Inspector states it, decimal GB/s
-- column: algorithm VARCHAR | NCCL's algorithm; NULL if the record does not say (format before 4.2)
-- column: protocol VARCHAR | NCCL's protocol; NULL if the record does not say
-- column: start_local_ns BIGINT | first start of its kernel as the host noticed it, rank's own clock; NULL unless verbose
-- column: end_local_ns BIGINT | last end of the same
-- column: call_id BIGINT | the same operation in collectives, where times tell
-- column: source_id INTEGER | file it comes from
CREATE VIEW nccl_inspected AS
SELECT
    c.rank, o.communicator, o.group_id, i.op, i.nth,
    o.ranks[i.peer_place + 1] AS peer,
    i.bytes, i.duration_ns, i.timing, i.algbw_gbps, i.busbw_gbps, i.algorithm, i.protocol, i.start_local_ns, i.end_local_ns, i.call_id, i.source_id
FROM base.nccl_inspected AS i
JOIN base.nccl_communicators AS c USING (source_id, number)
JOIN communicators AS o ON o.communicator = coalesce(c.identity, format('file {} communicator {}', c.source_id, c.number));

-- relation: clock_probes | one row per exchange of probes between two ranks, as traceweave.capture makes them before and after what it records
-- column: rank INTEGER | who asked
-- column: peer_rank INTEGER | who answered
-- column: meeting INTEGER | which of their meetings, counted from 0: before and after what is recorded
-- column: asked_local_ns BIGINT | when the request left, on the clock of rank
-- column: heard_local_ns BIGINT | when it arrived, on the clock of peer_rank
-- column: answered_local_ns BIGINT | when the answer left, on the clock of peer_rank
-- column: received_local_ns BIGINT | when it arrived, on the clock of rank
-- column: round_trip_ns BIGINT | how long both ways took
-- column: ahead_ns BIGINT | by how much the clock of peer_rank is ahead of that of rank, to within half of round_trip_ns
-- column: source_id INTEGER | file it comes from
CREATE VIEW clock_probes AS
SELECT
    rank, peer_rank, meeting, asked_local_ns, heard_local_ns, answered_local_ns, received_local_ns,
    (received_local_ns - asked_local_ns) - (answered_local_ns - heard_local_ns) AS round_trip_ns,
    ((heard_local_ns - asked_local_ns) + (answered_local_ns - received_local_ns)) // 2 AS ahead_ns,
    source_id
FROM base.clock_probes;

-- relation: job_settings | one row per rank and version or switch that it ran with, as traceweave.capture wrote them into the trace
-- column: rank INTEGER | global rank
-- column: kind VARCHAR | 'version': of the software; 'switch': an environment variable that tells how the job communicates
-- column: name VARCHAR | 'torch', 'NCCL_ALGO' ...
-- column: value VARCHAR | its value
-- column: source_id INTEGER | file it comes from
CREATE VIEW job_settings AS
SELECT rank, kind, name, value, source_id FROM base.job_settings WHERE kind IN ('version', 'switch');
