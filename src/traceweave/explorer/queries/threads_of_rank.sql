INSERT INTO memory.explorer.threads
WITH names AS (
    SELECT
        TRY_CAST(pid AS BIGINT) AS pid, TRY_CAST(tid AS BIGINT) AS tid,
        min(regexp_extract(args ->> '$.name', '\(([^()]+)\)\s*$', 1)) AS name
    FROM other_events
    WHERE rank = $rank AND phase = 'M' AND name = 'thread_name'
    GROUP BY ALL
),
threads AS (
    SELECT
        pid, tid, max(coalesce(depth, 0)) + 1 AS depths, count(*) AS ops, bool_or(starts_with(name, 'autograd::engine')) AS autograd
    FROM base.host_ops
    WHERE rank = $rank
    GROUP BY pid, tid
)
SELECT
    $rank,
    row_number() OVER (ORDER BY t.pid IS DISTINCT FROM t.tid, NOT t.autograd, t.ops DESC, t.pid, t.tid) - 1,
    t.pid,
    t.tid,
    CASE WHEN t.pid = t.tid THEN 'main' WHEN t.autograd THEN 'autograd' ELSE nullif(n.name, '') END,
    t.depths,
    t.ops
FROM threads AS t LEFT JOIN names AS n ON n.pid IS NOT DISTINCT FROM t.pid AND n.tid IS NOT DISTINCT FROM t.tid
