-- The critical path where it is on one rank.
SELECT
    t.track,
    o.start_ns,
    o.end_ns,
    concat_ws(': ', o.kind, o.what) AS name,
    'critical path' AS category,
    o.step
FROM export_path AS o JOIN export_tracks AS t ON t.kind = 'path' AND t.rank = o.rank
WHERE o.rank = $rank
    AND ($steps IS NULL OR list_contains($steps, o.step))
    AND ($from_ns IS NULL OR o.end_ns > $from_ns OR o.start_ns >= $from_ns)
    AND ($to_ns IS NULL OR o.start_ns < $to_ns)
ORDER BY t.track, o.start_ns, o.end_ns DESC
