-- shared: exposed_copies | why no compute ran while copies ran alone, in the parts of tw_stalls
-- grain: one row per rank and step with copies alone
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in whose window they ran; NULL: the rank's whole span
-- column: exposed_ns BIGINT | exposed_memory_ns of breakdown: the sum of the following
-- column: launch_starved_ns BIGINT | the compute that follows was not launched
-- column: blocked_ns BIGINT | and its thread waited in a synchronizing call
-- column: dependency_ns BIGINT | it is behind the copy on its stream, or waits for it
-- column: unknown_ns BIGINT | the rest
WITH pieces AS (
    SELECT rank, reason, other_ns / (end_ns - start_ns) AS other_share, start_ns AS from_ns, end_ns AS until_ns FROM tw_copy_pieces
),
summed AS (
    SELECT
        rank, step,
        CAST(sum(time_ns) AS BIGINT) AS exposed_ns,
        CAST(coalesce(sum(round(time_ns * other_share)) FILTER (WHERE reason = 'not_launched'), 0) AS BIGINT) AS blocked_ns,
        CAST(coalesce(sum(time_ns) FILTER (WHERE reason = 'not_launched'), 0) AS BIGINT) AS not_launched_ns,
        CAST(coalesce(sum(time_ns) FILTER (WHERE reason IN ('same_stream', 'needs_it')), 0) AS BIGINT) AS dependency_ns
    FROM tw_cut('pieces', 'device')
    GROUP BY rank, step
)
SELECT
    rank, step, exposed_ns, not_launched_ns - blocked_ns AS launch_starved_ns, blocked_ns, dependency_ns,
    exposed_ns - not_launched_ns - dependency_ns AS unknown_ns
FROM summed
WHERE exposed_ns > 0
