-- analysis: syncs | calls in which the host waited for the device, and the code that made them
-- answers: Which calls make the host wait for the device, and what code makes them?
-- topic: time
-- grain: one row per rank, call, reason and place in the code
-- needs: host_ops
-- within: rank
-- param: min_call_ns BIGINT = 0 | leave out calls shorter than this
-- param: step BIGINT = NULL | only calls in this step; NULL: all
-- column: rank INTEGER | global rank
-- column: call VARCHAR | the API call
-- column: reason VARCHAR | 'synchronize': the call waits by definition; 'copy': a call that copied between the device and memory of the host that is not pinned, and returned only when the copy had ended
-- column: host_op VARCHAR | innermost PyTorch operator around the call; NULL if none is recorded
-- column: annotation VARCHAR | innermost annotation or NVTX range around it; those that only numbers or a hash tell apart, as of steps, are taken together
-- column: python VARCHAR | innermost Python function around it
-- column: count BIGINT | calls
-- column: total_ns BIGINT | time the host spent in them
-- column: mean_ns DOUBLE | total_ns / count
-- column: min_ns BIGINT | shortest
-- column: p50_ns BIGINT | median
-- column: max_ns BIGINT | longest
-- column: copied_bytes BIGINT | bytes that the calls of reason 'copy' moved; NULL for others or if unknown
-- column: steps BIGINT | different steps in which they happened
-- main: rank, call, reason, host_op, annotation, count, total_ns, p50_ns, max_ns, copied_bytes
-- order: total_ns DESC, rank, call, reason, host_op, annotation, python
-- caveat: a wait for work that has to finish anyway, such as at the end of a step, costs nothing; gaps with cause 'sync' are the time the device lost.
-- caveat: a call inside another waiting call (cuStreamSynchronize in cudaStreamSynchronize) counts once, as the outer one.
-- caveat: cudaMalloc, cudaFree and others may wait too; they are not counted, since traces do not say whether they did.
WITH copies AS (
    SELECT launch_op_id AS op_id, max(start_local_ns + duration_ns) AS copied_until_ns, sum(bytes) AS bytes
    FROM gpu_ops
    WHERE kind = 'memcpy' AND launch_op_id IS NOT NULL AND tw_can_stall(copy_kind, name, args)
    GROUP BY launch_op_id
),
waiting AS MATERIALIZED (
    SELECT
        h.rank,
        h.op_id,
        h.parent_id,
        h.name AS call,
        CASE WHEN w.name IS NOT NULL AND c.op_id IS NULL THEN 'synchronize' ELSE 'copy' END AS reason,
        coalesce(h.pid, -1) AS pid,
        coalesce(h.tid, -1) AS tid,
        h.start_local_ns AS start_ns,
        h.depth,
        h.duration_ns,
        h.step,
        c.bytes
    FROM host_ops AS h
    LEFT JOIN copies AS c USING (op_id)
    LEFT JOIN (SELECT name FROM tw_call_names WHERE waits_for IS NOT NULL) AS w ON w.name = h.name
    WHERE h.kind IN ('runtime', 'driver')
        AND ({{ param('step') }} IS NULL OR h.step = {{ param('step') }})
        AND h.duration_ns >= {{ param('min_call_ns') }}
        AND (w.name IS NOT NULL OR h.start_local_ns + h.duration_ns >= c.copied_until_ns)
),
calls AS MATERIALIZED (
    SELECT * FROM waiting
    WHERE parent_id IS NULL OR parent_id NOT IN (SELECT op_id FROM waiting)
),
-- Of all ranges that contain a call there is one per depth of its thread: the last one that began before it.
ranges AS MATERIALIZED (
    SELECT
        rank,
        coalesce(pid, -1) AS pid,
        coalesce(tid, -1) AS tid,
        depth,
        op_id,
        start_local_ns AS start_ns,
        start_local_ns + duration_ns AS end_ns
    FROM host_ops
    WHERE kind IN ('op', 'annotation', 'nvtx', 'python') AND depth IS NOT NULL
        AND rank IN (SELECT rank FROM calls)
),
levels AS (
    SELECT c.op_id AS call_id, c.rank, c.pid, c.tid, c.start_ns, d.depth
    FROM calls AS c
    JOIN (SELECT DISTINCT rank, pid, tid, depth FROM ranges) AS d
        ON d.rank = c.rank AND d.pid = c.pid AND d.tid = c.tid AND d.depth < c.depth
),
around AS (
    SELECT l.call_id, l.depth, r.op_id
    FROM levels AS l
    ASOF JOIN ranges AS r
        ON r.rank = l.rank AND r.pid = l.pid AND r.tid = l.tid AND r.depth = l.depth AND l.start_ns >= r.start_ns
    WHERE l.start_ns < r.end_ns
),
placed AS (
    SELECT
        a.call_id,
        arg_max(CASE WHEN h.kind = 'op' THEN h.name END, CASE WHEN h.kind = 'op' THEN a.depth END) AS host_op,
        arg_max(
            CASE WHEN h.kind IN ('annotation', 'nvtx') THEN h.name END,
            CASE WHEN h.kind IN ('annotation', 'nvtx') THEN a.depth END
        ) AS annotation,
        arg_max(CASE WHEN h.kind = 'python' THEN h.name END, CASE WHEN h.kind = 'python' THEN a.depth END) AS python
    FROM around AS a
    JOIN host_ops AS h USING (op_id)
    GROUP BY a.call_id
)
SELECT
    c.rank,
    c.call,
    c.reason,
    p.host_op,
    CASE WHEN count(DISTINCT p.annotation) > 1 THEN 'ranges like ' ELSE '' END || min(p.annotation) AS annotation,
    p.python,
    count(*) AS count,
    CAST(sum(c.duration_ns) AS BIGINT) AS total_ns,
    avg(c.duration_ns) AS mean_ns,
    min(c.duration_ns) AS min_ns,
    tw_percentile(c.duration_ns, 0.5) AS p50_ns,
    max(c.duration_ns) AS max_ns,
    CAST(sum(c.bytes) AS BIGINT) AS copied_bytes,
    count(DISTINCT c.step) AS steps
FROM calls AS c
LEFT JOIN placed AS p ON p.call_id = c.op_id
GROUP BY c.rank, c.call, c.reason, p.host_op, tw_unnumbered(p.annotation), p.python
ORDER BY total_ns DESC, c.rank, c.call, c.reason, p.host_op, annotation, p.python
