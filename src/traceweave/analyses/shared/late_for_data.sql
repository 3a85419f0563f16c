-- shared: late_for_data | ranks that others wait for, and of which a finding about their data tells: data_bound, or one_off_stall
-- grain: one row per such rank; no stragglers, and none that is late in few steps alone, of which others tell
-- column: rank INTEGER | the late rank
-- column: share DOUBLE | the part of its lateness that the finding explains, 0 to 1
SELECT b.rank, max(b.cause_share) * least(sum(l.late_ns) / any_value(b.late_ns), 1) AS share
FROM {{ ref('blame') }} AS b JOIN {{ ref('late_steps') }} AS l USING (rank) JOIN {{ ref('idling') }} AS i USING (cause)
WHERE b.cause = 'data_loading' AND NOT b.is_straggler AND b.late_ns > 0 AND b.rank NOT IN (SELECT rank FROM {{ ref('late_in_few') }})
    AND CASE WHEN i.stalled_steps IS NULL THEN list_contains(i.ranks, b.rank) AND NOT i.is_blamed
        ELSE list_contains(i.stalled_ranks, b.rank) AND list_has_any(i.stalled_steps, [l.step, l.step - 1]) END
GROUP BY b.rank
