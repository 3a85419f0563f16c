-- rule: unexplained_idle | unexplained idling
-- topic: idling and copies
-- finds: Work was queued and did not start, or its launch is not in the trace.
-- try: See `gaps`; record CPU activity too.
-- proof: idle_causes
SELECT
    ranks,
    cost_ns,
    opening || CASE cause
        WHEN 'unknown' THEN ', though work was queued or its launch is not recorded'
        ELSE ' waiting for another stream'
    END || details AS evidence,
    CASE cause
        WHEN 'unknown' THEN 'See gaps: work that waits for events, another process on the GPU, or a recording without CPU activity'
        ELSE 'Start that stream''s work earlier'
    END AS advice
FROM shared_idling()
WHERE cause IN ('unknown', 'dependency')
