-- analysis: memory_live | what was allocated at the peak, by the operator that allocated it
-- answers: Which operators hold the memory when most of it is allocated?
-- topic: time
-- grain: one row per rank, device and operator with memory that it allocated and that was not yet released at the peak
-- needs: memory_events
-- within: rank
-- column: rank INTEGER | global rank
-- column: device VARCHAR | device as the trace names it
-- column: host_op VARCHAR | innermost operator that ran when the memory was allocated; NULL if none did, or if it was allocated before the trace
-- column: range VARCHAR | innermost annotation or NVTX range that was open then, on the thread of host_op if there is one; NULL if none was
-- column: bytes BIGINT | bytes live at the peak
-- column: blocks BIGINT | allocations they are in; NULL for the rest
-- column: largest_bytes BIGINT | largest of them
-- column: share DOUBLE | bytes / what was allocated at the peak, 0 to 1
-- column: peak_at_ns BIGINT | when the peak was, common clock
-- column: ambiguous_blocks BIGINT | allocations made while operators of several threads ran: host_op is the one that began last
-- column: note VARCHAR | what the row is if host_op is NULL
-- order: rank, device, bytes DESC, host_op NULLS LAST, range NULLS LAST
-- caveat: memory events do not say which thread they belong to: the operator is the one that began last of those running, on any thread of the rank.
-- caveat: the peak is that of the analysis memory; what was allocated before the recording began has no operator and is one row.
WITH counted AS MATERIALIZED (
    SELECT rank, coalesce(device, '') AS device, at_local_ns AS at_ns, op_id, value, address, allocated_bytes
    FROM tw_memory_levels()
),
peaks AS (
    SELECT
        rank,
        device,
        max(allocated_bytes) AS allocated_bytes,
        first(at_ns ORDER BY allocated_bytes DESC, at_ns, op_id) AS at_ns,
        first(op_id ORDER BY allocated_bytes DESC, at_ns, op_id) AS op_id
    FROM counted
    GROUP BY rank, device
),
-- the last thing that happened to an address up to the peak; live if that was an allocation
live AS MATERIALIZED (
    SELECT
        c.rank,
        c.device,
        c.address,
        arg_max(c.value, (c.at_ns, c.op_id)) AS bytes,
        max(c.at_ns) AS at_ns,
        arg_max(c.op_id, (c.at_ns, c.op_id)) AS block_id
    FROM counted AS c
    JOIN peaks AS p ON p.rank = c.rank AND p.device = c.device AND (c.at_ns, c.op_id) <= (p.at_ns, p.op_id)
    GROUP BY c.rank, c.device, c.address
    HAVING bytes > 0
),
-- one range per thread and depth can be open at a moment: the last one that began before it
ranges AS MATERIALIZED (
    SELECT rank, coalesce(pid, -1) AS pid, coalesce(tid, -1) AS tid, depth, op_id,
        start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns
    FROM host_ops
    WHERE kind IN ('op', 'annotation', 'nvtx') AND depth IS NOT NULL AND rank IN (SELECT rank FROM live)
),
levels AS (
    SELECT l.block_id, l.rank, l.at_ns, d.pid, d.tid, d.depth
    FROM live AS l JOIN (SELECT DISTINCT rank, pid, tid, depth FROM ranges) AS d USING (rank)
),
around AS (
    SELECT l.block_id, l.pid, l.tid, r.start_ns, l.depth, h.kind, h.name
    FROM levels AS l
    ASOF JOIN ranges AS r
        ON r.rank = l.rank AND r.pid = l.pid AND r.tid = l.tid AND r.depth = l.depth AND l.at_ns >= r.start_ns
    JOIN host_ops AS h ON h.op_id = r.op_id
    WHERE l.at_ns <= r.end_ns
),
operators AS (
    SELECT
        block_id,
        arg_max(name, (start_ns, depth)) AS host_op,
        arg_max((pid, tid), (start_ns, depth)) AS thread,
        count(DISTINCT (pid, tid)) AS threads
    FROM around
    WHERE kind = 'op'
    GROUP BY block_id
),
-- what another thread has open, as gloo's have a collective, is not around the operator
placed AS (
    SELECT
        a.block_id,
        any_value(o.host_op) AS host_op,
        arg_max(a.name, (a.start_ns, a.depth)) FILTER (WHERE a.kind <> 'op' AND (a.pid, a.tid) = coalesce(o.thread, (a.pid, a.tid))) AS range,
        any_value(o.threads) AS threads
    FROM around AS a LEFT JOIN operators AS o USING (block_id)
    GROUP BY a.block_id
),
held AS (
    SELECT
        l.rank,
        l.device,
        p.host_op,
        p.range,
        CAST(sum(l.bytes) AS BIGINT) AS bytes,
        count(*) AS blocks,
        max(l.bytes) AS largest_bytes,
        CAST(sum(CAST(coalesce(p.threads, 0) > 1 AS INTEGER)) AS BIGINT) AS ambiguous_blocks,
        CASE WHEN p.host_op IS NULL THEN 'allocated while no operator ran' END AS note
    FROM live AS l LEFT JOIN placed AS p USING (block_id)
    GROUP BY l.rank, l.device, p.host_op, p.range
    UNION ALL
    SELECT
        k.rank,
        k.device,
        NULL,
        NULL,
        k.allocated_bytes - coalesce(sum(l.bytes), 0),
        NULL,
        NULL,
        NULL,
        'allocated before the recording began'
    FROM peaks AS k LEFT JOIN live AS l USING (rank, device)
    GROUP BY k.rank, k.device, k.allocated_bytes
    HAVING k.allocated_bytes > coalesce(sum(l.bytes), 0)
)
SELECT
    h.rank,
    nullif(h.device, '') AS device,
    h.host_op,
    h.range,
    CAST(h.bytes AS BIGINT) AS bytes,
    h.blocks,
    h.largest_bytes,
    tw_ratio(CAST(h.bytes AS BIGINT), k.allocated_bytes) AS share,
    aligned_ns(k.at_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS peak_at_ns,
    h.ambiguous_blocks,
    h.note
FROM held AS h
JOIN peaks AS k USING (rank, device)
LEFT JOIN clock_spans AS c ON c.rank = h.rank AND k.at_ns >= c.from_local_ns AND k.at_ns < c.until_local_ns
ORDER BY h.rank, device, bytes DESC, h.host_op NULLS LAST, h.range NULLS LAST
