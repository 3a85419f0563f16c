-- shared: exposed_copies | why no compute ran while copies ran alone, in the parts of tw_stalls
-- grain: one row per rank and step with copies alone
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in whose window they ran; NULL: the rank's whole span
-- column: exposed_ns BIGINT | exposed_memory_ns of breakdown: the sum of the following
-- column: launch_starved_ns BIGINT | the compute that follows was not launched
-- column: blocked_ns BIGINT | and its thread waited in a synchronizing call
-- column: dependency_ns BIGINT | it is behind the copy on its stream, or waits for it
-- column: unknown_ns BIGINT | the rest
WITH windows AS MATERIALIZED (
    SELECT rank, step, start_ns, end_ns, row_number() OVER (PARTITION BY rank ORDER BY start_ns) AS number FROM tw_windows('device')
),
placed AS (
    SELECT p.*, p.other_ns / (p.end_ns - p.start_ns) AS other_share, coalesce(a.number, 1) AS first, coalesce(z.number, 0) AS last
    FROM tw_copy_pieces AS p
    ASOF LEFT JOIN windows AS a ON a.rank = p.rank AND p.start_ns >= a.start_ns
    ASOF LEFT JOIN windows AS z ON z.rank = p.rank AND p.end_ns > z.start_ns
),
cut AS (
    SELECT p.rank, w.step, p.reason, p.other_share, tw_shared_ns(p.start_ns, p.end_ns, w.start_ns, w.end_ns) AS time_ns
    FROM (SELECT *, unnest(range(first, last + 1)) AS number FROM placed) AS p JOIN windows AS w USING (rank, number)
),
summed AS (
    SELECT
        rank, step,
        CAST(sum(time_ns) AS BIGINT) AS exposed_ns,
        CAST(coalesce(sum(round(time_ns * other_share)) FILTER (WHERE reason = 'not_launched'), 0) AS BIGINT) AS blocked_ns,
        CAST(coalesce(sum(time_ns) FILTER (WHERE reason = 'not_launched'), 0) AS BIGINT) AS not_launched_ns,
        CAST(coalesce(sum(time_ns) FILTER (WHERE reason IN ('same_stream', 'needs_it')), 0) AS BIGINT) AS dependency_ns
    FROM cut
    GROUP BY rank, step
)
SELECT
    rank, step, exposed_ns, not_launched_ns - blocked_ns AS launch_starved_ns, blocked_ns, dependency_ns,
    exposed_ns - not_launched_ns - dependency_ns AS unknown_ns
FROM summed
WHERE exposed_ns > 0
