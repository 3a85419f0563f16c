-- analysis: rank_difference | what one rank does more, longer or alone, beside the median of the others
-- answers: Why is this rank slower than the others: which kernels, operators, ranges or idle times, since which step?
-- topic: compute
-- grain: one row per kernel, operator, range or cause of idling that the rank takes longer for, by min_share of the step
-- param: rank BIGINT = NULL | which rank; NULL: the one that ranks wait for most, by stragglers; else the one that computes longest
-- param: min_share
-- column: rank INTEGER | global rank
-- column: kind VARCHAR | 'kernel', 'operator' (of a CPU run, without those inside it), 'range' (annotation or NVTX range of the host, with all in it), or 'idle'
-- column: name VARCHAR | its name; of 'idle' the cause as in idle_causes
-- column: count_per_step DOUBLE | how often, mean over the steps in which it takes longer
-- column: others_count DOUBLE | median of the other ranks in these steps; 0: most do not
-- column: time_ns BIGINT | how long, mean over these steps
-- column: others_ns BIGINT | median of the other ranks
-- column: excess_ns BIGINT | how much longer, per step over all steps
-- column: step_share DOUBLE | excess_ns / the mean step
-- column: which_steps VARCHAR | in which steps: at least half as much longer as in those that hold half of it, the worst first
-- column: note VARCHAR | the same in a sentence
-- order: excess_ns DESC, kind, name
-- caveat: a range holds what is in it, kernels apart: its row and those of its parts are about the same time.
-- caveat: a rank that is waited for waits less itself: what is shorter on it is left out.
WITH chosen AS (
    SELECT coalesce(
        {{ param('rank') }},
        (SELECT arg_max(rank, (origin_wait_ns, -rank)) FROM {{ ref('stragglers') }} WHERE origin_wait_ns > 0),
        (SELECT arg_max(rank, (compute_ns, -rank)) FROM (SELECT rank, avg(compute_ns) AS compute_ns FROM {{ ref('budget') }} GROUP BY rank))
    ) AS rank
)
SELECT
    d.rank,
    d.kind,
    d.name,
    d.count_per_step,
    d.others_count,
    CAST(d.time_ns AS BIGINT) AS time_ns,
    CAST(d.others_ns AS BIGINT) AS others_ns,
    CAST(d.excess_ns AS BIGINT) AS excess_ns,
    d.excess_ns / s.step_ns AS step_share,
    d.which AS which_steps,
    d.does AS note
FROM {{ ref('differences') }} AS d JOIN chosen USING (rank) CROSS JOIN {{ ref('mean_step') }} AS s
WHERE d.excess_ns >= {{ param('min_share') }} * s.step_ns
ORDER BY excess_ns DESC, d.kind, d.name
