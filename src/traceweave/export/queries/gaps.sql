-- The idle gaps of one rank's devices, from the analysis of that name.
SELECT
    t.track,
    o.start_ns,
    o.end_ns,
    o.cause AS name,
    'gap' AS category,
    o.step,
    o.host_op,
    o.before_op,
    o.after_op
FROM export_gaps AS o
JOIN export_tracks AS t ON t.kind = 'gaps' AND t.rank = o.rank AND t.pid IS NOT DISTINCT FROM o.device
WHERE o.rank = $rank
    AND ($steps IS NULL OR list_contains($steps, o.step))
    AND ($from_ns IS NULL OR o.end_ns > $from_ns OR o.start_ns >= $from_ns)
    AND ($to_ns IS NULL OR o.start_ns < $to_ns)
ORDER BY t.track, o.start_ns, o.end_ns DESC
