-- The exposed communication of one rank's steps, from the analysis 'breakdown': a value that holds for the step's window.
SELECT t.track, o.window_start_ns AS at_ns, CAST(o.exposed_comm_ns AS DOUBLE) AS value
FROM export_breakdown AS o JOIN export_tracks AS t ON t.kind = 'exposed' AND t.rank = o.rank
WHERE o.rank = $rank
    AND ($steps IS NULL OR list_contains($steps, o.step))
    AND ($from_ns IS NULL OR o.window_start_ns >= $from_ns)
    AND ($to_ns IS NULL OR o.window_start_ns < $to_ns)
ORDER BY t.track, o.window_start_ns
