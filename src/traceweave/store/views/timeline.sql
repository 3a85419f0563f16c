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
