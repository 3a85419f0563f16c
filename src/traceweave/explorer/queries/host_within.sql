-- What the threads of one rank run between two times; bounds as in within.sql.
CREATE MACRO memory.explorer.host_within(from_ns, until_ns, low, high, short, chosen) AS TABLE
WITH found AS (
    FROM run.base.host_ops
    WHERE rank = chosen AND start_local_ns >= low - short AND start_local_ns < high AND duration_ns <= short
    UNION ALL
    FROM run.base.host_ops
    WHERE rank = chosen AND duration_ns > short AND start_local_ns < high AND start_local_ns + duration_ns >= low
),
placed AS (
    SELECT
        t.thread,
        coalesce(o.depth, 0) AS depth,
        o.op_id,
        o.kind,
        o.name,
        o.duration_ns,
        run.base.align_by(o.start_local_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces)
            - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns
    FROM found AS o
    JOIN memory.explorer.clocks AS c ON c.rank = o.rank
    JOIN memory.explorer.threads AS t ON t.rank = o.rank AND t.pid IS NOT DISTINCT FROM o.pid AND t.tid IS NOT DISTINCT FROM o.tid
)
FROM placed
WHERE start_ns < until_ns AND (start_ns + duration_ns > from_ns OR start_ns >= from_ns);
