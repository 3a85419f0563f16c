-- Events of one rank that have a length and no table of their own: GPU annotations, profiler overhead, synchronization.
SELECT
    t.track,
    o.start_ns,
    o.end_ns,
    o.name,
    o.category,
    o.op_id
FROM other_events AS o
JOIN export_tracks AS t
    ON t.kind = 'other' AND t.rank IS NOT DISTINCT FROM o.rank
    AND t.label IS NOT DISTINCT FROM
        CASE WHEN o.phase = 'i' OR o.category = 'trace' THEN 'profiler' ELSE concat_ws(' ', o.category, o.tid) END
WHERE o.rank IS NOT DISTINCT FROM CAST($rank AS INTEGER)
    AND o.phase <> 'M'
    AND o.start_ns IS NOT NULL
    AND o.end_ns IS NOT NULL
    AND ($steps IS NULL OR EXISTS (
        FROM export_windows AS w WHERE w.rank = o.rank AND o.start_ns >= w.start_ns AND o.start_ns < w.end_ns
    ))
    AND ($from_ns IS NULL OR o.end_ns > $from_ns OR o.start_ns >= $from_ns)
    AND ($to_ns IS NULL OR o.start_ns < $to_ns)
ORDER BY t.track, o.start_ns, o.end_ns DESC, o.op_id
