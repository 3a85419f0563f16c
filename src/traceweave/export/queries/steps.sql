-- The steps of one rank, on the host and on the GPU.
WITH ranges AS (
    SELECT rank, 'steps' AS kind, step, start_ns, end_ns, source FROM steps
    UNION ALL
    SELECT rank, 'gpu steps' AS kind, step, device_start_ns AS start_ns, device_end_ns AS end_ns, source
    FROM steps WHERE device_end_ns IS NOT NULL
)
SELECT
    t.track,
    o.start_ns,
    o.end_ns,
    'step ' || o.step AS name,
    o.source AS category,
    o.step
FROM ranges AS o JOIN export_tracks AS t ON t.kind = o.kind AND t.rank = o.rank
WHERE o.rank = $rank
    AND ($steps IS NULL OR list_contains($steps, o.step))
    AND ($from_ns IS NULL OR o.end_ns > $from_ns OR o.start_ns >= $from_ns)
    AND ($to_ns IS NULL OR o.start_ns < $to_ns)
ORDER BY t.track, o.start_ns, o.end_ns DESC, o.step
