-- analysis: stragglers | how long each rank made the others wait by arriving last
-- answers: Who makes everybody wait, how often, and what does it cost?
-- topic: communication
-- grain: one row per rank, or per rank and step, that shares a collective with another rank
-- reads: clocks, collective_instances, collective_waits
-- param: per VARCHAR = 'run' | what one row covers
-- choice: per 'run' | the whole run; step is NULL
-- choice: per 'step' | one step of the rank; step is NULL for what it did outside any step
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which this rank issued the collectives; NULL: all of them
-- column: instances BIGINT | collectives of this rank that were seen on another rank too
-- column: times_last BIGINT | those in which it arrived after all the others
-- column: caused_wait_ns BIGINT | sum over these of (its start - the start of the last but one) * number of waiting ranks
-- column: cause VARCHAR | what it did in the excess time; NULL: see note
-- column: below_resolution BOOLEAN | at least half of caused_wait_ns rests on delays smaller than what the clocks can tell; false if it never was last
-- column: resolved_wait_ns BIGINT | the part of caused_wait_ns that rests on delays the clocks can tell
-- column: delay_max_ns BIGINT | longest time between its start and that of the last but one; NULL if it never was last
-- column: last_share DOUBLE | times_last / instances, 0 to 1
-- column: note VARCHAR | why cause is NULL
-- order: caused_wait_ns DESC, rank, step NULLS FIRST
-- caveat: a rank that is late because it waited in a collective of another group is charged here like any other.
-- caveat: the resolution of a delay is the largest residual_p95_ns of the ranks that took part; without one nothing is resolved.
WITH arrivals AS (
    SELECT
        w.collective_id,
        w.rank,
        w.step,
        w.start_ns,
        w.is_last,
        coalesce(c.residual_p95_ns, 9223372036854775807) AS residual_ns
    FROM collective_waits AS w
    JOIN collective_instances AS i USING (collective_id)
    LEFT JOIN (
        SELECT rank, max(residual_p95_ns) AS residual_p95_ns FROM clocks GROUP BY rank
    ) AS c ON c.rank = w.rank
    WHERE i.ranks_seen > 1
),
delays AS (
    SELECT
        collective_id,
        max(start_ns) FILTER (WHERE is_last) - max(start_ns) FILTER (WHERE NOT is_last) AS delay_ns,
        count(DISTINCT rank) - 1 AS waiting_ranks,
        max(residual_ns) AS resolution_ns
    FROM arrivals
    GROUP BY collective_id
),
charged AS (
    SELECT
        a.rank,
        CASE WHEN $per = 'step' THEN a.step END AS step,
        -- two that arrive together are both not last
        CASE WHEN a.is_last AND d.delay_ns > 0 THEN d.delay_ns END AS delay_ns,
        CASE WHEN a.is_last AND d.delay_ns > 0 THEN d.delay_ns * d.waiting_ranks END AS wait_ns,
        d.delay_ns >= d.resolution_ns AS is_resolved
    FROM arrivals AS a JOIN delays AS d USING (collective_id)
),
ranked AS (
    SELECT
        rank,
        step,
        count(*) AS instances,
        count(delay_ns) AS times_last,
        CAST(coalesce(sum(wait_ns), 0) AS BIGINT) AS caused_wait_ns,
        CAST(coalesce(sum(wait_ns) FILTER (WHERE is_resolved), 0) AS BIGINT) AS resolved_wait_ns,
        max(delay_ns) AS delay_max_ns
    FROM charged
    GROUP BY rank, step
)
SELECT
    rank,
    step,
    instances,
    times_last,
    caused_wait_ns,
    CAST(NULL AS VARCHAR) AS cause,
    times_last > 0 AND 2 * resolved_wait_ns <= caused_wait_ns AS below_resolution,
    resolved_wait_ns,
    delay_max_ns,
    tw_ratio(times_last, instances) AS last_share,
    CASE WHEN times_last = 0 THEN 'it was never last' ELSE 'causes are not derived' END AS note
FROM ranked
ORDER BY caused_wait_ns DESC, rank, step NULLS FIRST
