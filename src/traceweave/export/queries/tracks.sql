-- Every track that the run may need, in the order in which a rank's tracks are shown.
-- $gaps: also those of the analyses.
WITH streams AS (
    SELECT
        rank, device AS pid, stream AS number,
        arg_max(category, (busy_ns, category)) AS label,
        sum(kernels) AS events
    FROM (
        SELECT rank, device, stream, category, sum(duration_ns) AS busy_ns, count(*) AS kernels
        FROM gpu_ops GROUP BY ALL
    )
    GROUP BY ALL
),
thread_names AS (
    SELECT rank, TRY_CAST(pid AS BIGINT) AS pid, TRY_CAST(tid AS BIGINT) AS tid,
        min(regexp_extract(args ->> '$.name', '\(([^()]+)\)\s*$', 1)) AS name
    FROM other_events WHERE phase = 'M' AND name = 'thread_name'
    GROUP BY ALL
),
threads AS (
    SELECT rank, pid, tid AS number, bool_or(starts_with(name, 'autograd::engine')) AS autograd, count(*) AS events
    FROM host_ops GROUP BY ALL
),
all_tracks AS (
    SELECT 0 AS place, rank, 'steps' AS kind, NULL AS pid, NULL AS number, NULL AS label, NULL AS unit, 0 AS rest
    FROM steps GROUP BY rank
    UNION ALL
    SELECT 1, rank, 'gpu steps', NULL, NULL, NULL, NULL, 0 FROM steps WHERE device_end_ns IS NOT NULL GROUP BY rank
    UNION ALL
    SELECT 1.5, rank, 'path', NULL, NULL, NULL, NULL, 0 FROM export_path GROUP BY rank
    UNION ALL
    SELECT 2, r.rank, 'gaps', d.device, NULL, NULL, NULL, 0
    FROM ranks AS r LEFT JOIN (SELECT DISTINCT rank, device FROM gpu_ops) AS d USING (rank) WHERE $gaps
    UNION ALL
    SELECT 3, rank, 'stream', pid, number, label, NULL,
        CASE label WHEN 'compute' THEN 0 WHEN 'communication' THEN 1 ELSE 2 END
    FROM streams
    UNION ALL
    SELECT
        4, t.rank, 'thread', t.pid, t.number,
        CASE WHEN t.pid = t.number THEN 'main' WHEN t.autograd THEN 'autograd' ELSE nullif(n.name, '') END, NULL,
        CASE WHEN t.pid = t.number THEN 0 WHEN t.autograd THEN 1 ELSE 2 END
    FROM threads AS t
    LEFT JOIN thread_names AS n
        ON n.rank IS NOT DISTINCT FROM t.rank AND n.tid = t.number AND n.pid IS NOT DISTINCT FROM t.pid
    UNION ALL
    SELECT DISTINCT
        CASE category WHEN 'gpu_user_annotation' THEN 3 ELSE 5 END, rank, 'other', NULL, NULL,
        CASE WHEN phase = 'i' OR category = 'trace' THEN 'profiler' ELSE concat_ws(' ', category, tid) END, NULL, 3
    FROM other_events WHERE phase <> 'M' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
    UNION ALL
    SELECT 6, r.rank, 'exposed', NULL, NULL, n.label, 'ns', n.rest
    FROM ranks AS r
    CROSS JOIN (VALUES
        ('exposed communication per step', 0), ('exposed waiting per step', 1), ('exposed transfer per step', 2),
        ('exposed waiting or transfer per step', 3)
    ) AS n (label, rest)
    WHERE $gaps
    UNION ALL
    SELECT DISTINCT 7, rank, 'counter', NULL, NULL, concat_ws(' ', name, device), unit, 0 FROM counters
    UNION ALL
    SELECT DISTINCT 7, e.rank, 'counter', NULL, NULL, concat_ws(' ', n.name, e.device), 'bytes', 0
    FROM memory_events AS e CROSS JOIN (VALUES ('allocated memory'), ('reserved memory')) AS n (name)
)
SELECT
    CAST(row_number() OVER (ORDER BY rank NULLS LAST, place, rest, pid, number, label, unit) AS BIGINT) AS track,
    rank, kind, CAST(pid AS BIGINT) AS pid, CAST(number AS BIGINT) AS number, label, unit
FROM all_tracks
ORDER BY track
