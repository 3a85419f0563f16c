-- shared: launched_until | what threads had launched on the GPU, and the backward operators that arrows from them lead to, up to each moment
-- grain: one row per thread and moment at which it launches something, or an arrow begins
-- needs: host_ops
-- param: rank BIGINT = NULL | count this rank only; NULL: all
-- column: thread UBIGINT | hash of rank, process and thread
-- column: at_ns BIGINT | the moment, rank's own clock
-- column: gpu_ns BIGINT | GPU time launched by then; this and the following only mean anything as differences
-- column: gpu_ops BIGINT | GPU ops launched
-- column: back_ns BIGINT | GPU time launched in the backward operators that arrows lead to
-- column: back_ops BIGINT | these operators
WITH launches AS MATERIALIZED (
    SELECT hash(h.rank, h.pid, h.tid) AS thread, h.start_local_ns AS at_ns, g.gpu_ns, g.gpu_ops
    FROM (
        SELECT launch_op_id AS op_id, CAST(sum(duration_ns) AS BIGINT) AS gpu_ns, count(*) AS gpu_ops
        FROM gpu_ops
        WHERE launch_op_id IS NOT NULL AND ({{ param('rank') }} IS NULL OR rank = {{ param('rank') }})
        GROUP BY launch_op_id
    ) AS g
    JOIN host_ops AS h USING (op_id)
),
backward AS MATERIALIZED (
    SELECT
        hash(a.rank, a.pid, a.tid) AS thread,
        a.start_local_ns AS at_ns,
        hash(z.rank, z.pid, z.tid) AS back_thread,
        z.start_local_ns AS back_start_ns,
        z.start_local_ns + z.duration_ns AS back_end_ns
    FROM flows AS f
    JOIN host_ops AS a ON a.op_id = f.from_op_id
    JOIN host_ops AS z ON z.op_id = f.to_op_id
    WHERE f.kind = 'fwdbwd' AND ({{ param('rank') }} IS NULL OR f.rank = {{ param('rank') }})
),
-- what a thread had launched up to a launch
launched AS (
    SELECT
        thread,
        at_ns,
        CAST(sum(sum(gpu_ns)) OVER (PARTITION BY thread ORDER BY at_ns ROWS UNBOUNDED PRECEDING) AS BIGINT) AS gpu_ns
    FROM launches
    WHERE thread IN (SELECT back_thread FROM backward)
    GROUP BY thread, at_ns
),
-- up to the end of the backward operator minus up to before its start
arrows AS (
    SELECT b.thread, b.at_ns, coalesce(z.gpu_ns, 0) - coalesce(a.gpu_ns, 0) AS back_ns
    FROM backward AS b
    ASOF LEFT JOIN launched AS z ON z.thread = b.back_thread AND b.back_end_ns >= z.at_ns
    ASOF LEFT JOIN launched AS a ON a.thread = b.back_thread AND b.back_start_ns > a.at_ns
)
SELECT
    thread,
    at_ns,
    CAST(sum(sum(gpu_ns)) OVER until_here AS BIGINT) AS gpu_ns,
    CAST(sum(sum(gpu_ops)) OVER until_here AS BIGINT) AS gpu_ops,
    CAST(sum(sum(back_ns)) OVER until_here AS BIGINT) AS back_ns,
    CAST(sum(sum(back_ops)) OVER until_here AS BIGINT) AS back_ops
FROM (
    SELECT thread, at_ns, gpu_ns, gpu_ops, 0 AS back_ns, 0 AS back_ops FROM launches
    UNION ALL
    SELECT thread, at_ns, 0, 0, back_ns, 1 FROM arrows
)
GROUP BY thread, at_ns
WINDOW until_here AS (PARTITION BY thread ORDER BY at_ns ROWS UNBOUNDED PRECEDING)
