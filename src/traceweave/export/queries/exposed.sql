-- The exposed communication of one rank's steps, its waiting, its transfer and what may be either, from the analysis
-- 'breakdown': values that hold for the step's window.
WITH parts AS (
    UNPIVOT (
        SELECT
            rank,
            step,
            window_start_ns AS at_ns,
            exposed_comm_ns AS "exposed communication per step",
            exposed_wait_ns AS "exposed waiting per step",
            exposed_transfer_ns AS "exposed transfer per step",
            exposed_unsplit_ns AS "exposed waiting or transfer per step"
        FROM export_breakdown
        WHERE rank = $rank
    )
    ON COLUMNS(* EXCLUDE (rank, step, at_ns))
    INTO NAME label VALUE exposed_ns
)
SELECT t.track, o.at_ns, CAST(o.exposed_ns AS DOUBLE) AS value
FROM parts AS o JOIN export_tracks AS t ON t.kind = 'exposed' AND t.rank = o.rank AND t.label = o.label
WHERE ($steps IS NULL OR list_contains($steps, o.step))
    AND ($from_ns IS NULL OR o.at_ns >= $from_ns)
    AND ($to_ns IS NULL OR o.at_ns < $to_ns)
ORDER BY t.track, o.at_ns
