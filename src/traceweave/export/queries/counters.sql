-- The samples of one rank's counters, and what is allocated and reserved after each of its memory events, as the analyses
-- of memory count it.
WITH samples AS (
    SELECT rank, at_ns, device, name, unit, value, op_id FROM counters
    UNION ALL
    SELECT rank, at_ns, device, 'allocated memory' AS name, 'bytes' AS unit, allocated_bytes AS value, op_id
    FROM export_memory
    UNION ALL
    SELECT rank, at_ns, device, 'reserved memory' AS name, 'bytes' AS unit, reserved_bytes AS value, op_id
    FROM export_memory
)
SELECT t.track, o.at_ns, CAST(o.value AS DOUBLE) AS value
FROM samples AS o
JOIN export_tracks AS t
    ON t.kind = 'counter' AND t.rank IS NOT DISTINCT FROM o.rank AND t.label = concat_ws(' ', o.name, o.device)
    AND t.unit IS NOT DISTINCT FROM o.unit
WHERE o.rank IS NOT DISTINCT FROM CAST($rank AS INTEGER)
    AND o.value IS NOT NULL
    AND ($steps IS NULL OR EXISTS (
        FROM export_windows AS w WHERE w.rank = o.rank AND o.at_ns >= w.start_ns AND o.at_ns < w.end_ns
    ))
    AND ($from_ns IS NULL OR o.at_ns >= $from_ns)
    AND ($to_ns IS NULL OR o.at_ns < $to_ns)
ORDER BY t.track, o.at_ns, o.op_id
