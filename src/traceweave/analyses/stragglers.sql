-- analysis: stragglers | how long each rank made the others wait by arriving last, and what it was doing
-- answers: Which rank makes the others wait, how often, what does it cost, and why?
-- topic: communication
-- grain: one row per rank, or per rank and step, that shares a collective with another rank
-- needs: ref('arrivals')
-- page: table-stragglers
-- param: per VARCHAR = 'run' | what one row covers
-- choice: per 'run' | the whole run; step is NULL
-- choice: per 'step' | one step of the rank; step is NULL for what it did outside any step
-- param: min_excess_share DOUBLE = 0.1 | what the rank did longer than the others is named as the cause if it makes up at least this share of its lateness
-- param: queued_ns
-- param: min_gap_ns
-- param: kernel_delay_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which this rank issued the collectives; NULL: all of them
-- column: instances BIGINT | collectives of this rank that were seen on another rank too, and count
-- column: times_last BIGINT | those in which it arrived after all the others
-- column: caused_wait_ns BIGINT | how long ranks waited for it alone: from the start of the last but one to its own, summed over the waiting ranks
-- column: cause VARCHAR | what it did longer than the others on its way to these: 'compute', 'host_bound', 'data_loading', 'copies', 'other_group', 'device_delay', 'unknown_idle', or 'late_end': the collective before ended later on it, which is no doing of the rank; NULL: see note
-- column: below_resolution BOOLEAN | at least half of caused_wait_ns comes from delays below the clock resolution; false if it was never last
-- column: resolved_wait_ns BIGINT | the part of caused_wait_ns from delays that the clocks resolve
-- column: delay_max_ns BIGINT | longest time between its start and that of the last but one; NULL if it was never last
-- column: last_share DOUBLE | times_last / instances, 0 to 1
-- column: note VARCHAR | why cause is NULL
-- column: cause_detail VARCHAR | 'compute': the class of kernels that took longest beyond the others'; 'host_bound': the cause of the gaps; 'other_group': the group, and the rank it waited for there, in the same step or the one before
-- column: cause_share DOUBLE | its excess over the others by that cause / its total excess, 0 to 1
-- column: times_shortest BIGINT | collectives in which no other rank's duration was as short: late, judged without clocks
-- column: shortest_share DOUBLE | times_shortest / instances, 0 to 1: beside last_share, which needs the clocks
-- column: worst_steps BIGINT | steps of the run in which it caused more wait than any other rank
-- column: worst_share DOUBLE | worst_steps / steps in which any rank was last: 1 is always the same rank; NULL if none was
-- column: host VARCHAR | host of the rank; NULL if unknown
-- column: host_share DOUBLE | part of the wait caused by all ranks that the ranks of its host caused; NULL if no rank waited or the host is unknown
-- column: stage VARCHAR | 'first', 'middle' or 'last' stage of its pipeline; NULL if it is in none
-- column: known_instances BIGINT | collectives of this rank in which the clocks resolve which rank came last
-- column: known_last BIGINT | those of times_last: what resolved_wait_ns is the sum of
-- column: waited_ns BIGINT | time in which it waited for others, in collectives where the clocks resolve that ranks waited
-- column: waited_free_ns BIGINT | the same without clocks, in those without a root: for so long as its duration exceeds the shortest over the ranks; NULL if all have one
-- column: inside_ns BIGINT | time inside the collectives of waited_free_ns, waiting and transfer together
-- column: origin_wait_ns BIGINT | how long ranks waited because of it in all: for itself, and for ranks that it had held up in another group before; over the ranks the same sum as waited_ns
-- column: passed_on_ns BIGINT | how long ranks waited for it because others had held it up: part of their origin_wait_ns
-- column: origin_rank INTEGER | the rank that most of passed_on_ns goes back to; NULL if there is none
-- column: chance DOUBLE | probability that of as many ranks that are alike one makes the others wait as often and as long; of the whole run; NULL: the clocks resolve no lateness
-- main: rank, step, known_instances, known_last, origin_wait_ns, cause, cause_detail, cause_share, below_resolution, note
-- order: origin_wait_ns DESC, caused_wait_ns DESC, rank, step NULLS FIRST
-- caveat: caused_wait_ns is summed over the ranks made to wait, and over the steps: arriving 1 ms after 7 others is 7 ms. findings has what one of them loses per step.
-- caveat: collectives that run at once on a rank count every moment of it once: it waits for the first of them. Steps and ranks that the recording's verdict leaves out, and collectives that such a one came last to, do not count.
-- caveat: the cause compares the stretch from the rank's previous collective among the same ranks to the start of this one with the mean of the others' same stretches, each on the rank's own clock, and weighs it with the number of waiting ranks.
-- caveat: compute comes before communication, copies and idling where they happen at once; host_bound is idle time that gaps attributes to the host, without data loading.
-- caveat: what runs on a GPU holds a collective up from its launch on, or before that as far as the host waited for the GPU. Where both together are less than half of the lateness, the host is late, whatever its GPU did meanwhile.
-- caveat: caused_wait_ns counts a rank that is late because it waited in a collective of another group like any other; its cause is other_group. origin_wait_ns follows its lateness to where it began.
-- caveat: origin_wait_ns shares the time between two arrivals among all ranks that are still missing. A missing rank passes on what it has waited longer than those already there, without compute, since a collective last made all of them even.
-- caveat: worst_steps, worst_share, host_share and stage are those of the whole run, also in rows of a step; a pipeline is a group with the role 'pp', or one that only sends and receives, its ranks in the order of the stages.
-- caveat: a send and its recv count like a collective of two ranks: in a pipeline the first stage is not to blame for the wait for it. A send that was over before its recv began was buffered: nobody waited, and it does not count.
-- caveat: chance: of ranks that are alike each wait of a step might as well have been any other's. All waits take their places by length, so that one long pause counts little more than the next; asked is how often places drawn at random, one in each step, add up to as much as the rank's, times the number of ranks. A rank that was the worst in all of n steps by nearly the same time is rarer yet: times (what the least and the largest lead over the next rank differ by / the largest) ** (n - 1).
-- caveat: chance: of more than two ranks the one that is late in few steps, far longer than others usually are, is put aside with these steps where the chance of the others is worked out.
-- caveat: chance takes steps for independent: what holds one rank up for several steps is taken for its own. Where fewer than two steps are known, stretches between moments at which the ranks were even take the place of steps.
-- caveat: the clocks resolve a delay where last_is_known of collective_instances is true.
WITH ranked AS (
    SELECT
        rank,
        CASE WHEN {{ param('per') }} = 'step' THEN step END AS at_step,
        count(*) FILTER (WHERE NOT is_unknown) AS instances,
        count(late_ns) FILTER (WHERE counts) AS times_last,
        CAST(coalesce(sum(caused_ns), 0) AS BIGINT) AS caused_wait_ns,
        CAST(coalesce(sum(caused_ns) FILTER (WHERE last_is_known), 0) AS BIGINT) AS resolved_wait_ns,
        max(late_ns) FILTER (WHERE counts) AS delay_max_ns,
        count(*) FILTER (WHERE is_shortest AND NOT is_unknown) AS times_shortest,
        count(*) FILTER (WHERE last_is_known AND NOT is_unknown) AS known_instances,
        count(late_ns) FILTER (WHERE last_is_known AND counts) AS known_last,
        CAST(coalesce(sum(counted_ns) FILTER (WHERE NOT below_resolution), 0) AS BIGINT) AS waited_ns,
        CAST(sum(free_ns) FILTER (WHERE is_free) AS BIGINT) AS waited_free_ns,
        CAST(sum(inside_ns) FILTER (WHERE is_free) AS BIGINT) AS inside_ns
    FROM (
        SELECT
            *,
            counts AND wait_free_ns IS NOT NULL AS is_free,
            tw_added_ns(own_start_ns, own_start_ns + wait_free_ns, max(own_start_ns + wait_free_ns) OVER earlier) AS free_ns,
            tw_added_ns(own_start_ns, own_end_ns, max(own_end_ns) OVER earlier) AS inside_ns
        FROM {{ ref('arrivals') }}
        WINDOW earlier AS (PARTITION BY rank, is_free ORDER BY own_start_ns, own_end_ns, collective_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    )
    GROUP BY rank, at_step
    HAVING at_step IS NULL OR instances > 0
),
followed AS (
    SELECT rank, CASE WHEN {{ param('per') }} = 'step' THEN step END AS at_step, origin, sum(wait_ns) AS wait_ns
    FROM {{ ref('followed_waits') }}
    GROUP BY ALL
),
-- whole ns that add up to the whole
originated AS (
    SELECT rank, at_step, CAST(round(until_ns) - round(until_ns - wait_ns) AS BIGINT) AS wait_ns
    FROM (
        SELECT *, sum(wait_ns) OVER (ORDER BY rank, at_step NULLS FIRST) AS until_ns
        FROM (SELECT origin AS rank, at_step, sum(wait_ns) AS wait_ns FROM followed GROUP BY ALL)
    )
),
relayed AS (
    SELECT rank, at_step, CAST(round(sum(wait_ns)) AS BIGINT) AS wait_ns, arg_max(origin, (wait_ns, -origin)) AS origin
    FROM followed
    WHERE origin <> rank
    GROUP BY rank, at_step
),
explained AS (
    SELECT
        r.*,
        times_last > 0 AND CASE WHEN caused_wait_ns > 0 THEN 2 * resolved_wait_ns <= caused_wait_ns ELSE known_last = 0 END AS below_resolution,
        c.cause,
        c.cause_detail,
        c.cause_share,
        coalesce(c.excess_ns >= {{ param('min_excess_share') }} * c.late_ns, FALSE) AS is_enough
    FROM ranked AS r
    LEFT JOIN {{ ref('late_causes') }} AS c ON c.rank = r.rank AND c.step IS NOT DISTINCT FROM r.at_step
)
SELECT
    e.rank,
    e.at_step AS step,
    e.instances,
    e.times_last,
    e.caused_wait_ns,
    CASE WHEN NOT e.below_resolution AND e.is_enough THEN e.cause END AS cause,
    e.below_resolution,
    e.resolved_wait_ns,
    e.delay_max_ns,
    tw_ratio(e.times_last, e.instances) AS last_share,
    CASE
        WHEN e.instances = 0 THEN 'the verdict on the recording leaves out all of it'
        WHEN e.times_last = 0 THEN 'it was never last'
        WHEN e.below_resolution THEN 'at least half of its lateness is below the clock resolution'
        WHEN e.cause IS NULL AND NOT EXISTS (FROM {{ ref('excesses') }} AS x WHERE x.rank = e.rank AND (e.at_step IS NULL OR x.step = e.at_step))
            THEN 'no earlier collective of the same ranks to measure from'
        WHEN e.caused_wait_ns = 0 THEN 'those it came after were waiting in other collectives, or are left out'
        WHEN NOT e.is_enough THEN 'it did nothing longer than the others'
    END AS note,
    CASE WHEN NOT e.below_resolution AND e.is_enough THEN e.cause_detail END AS cause_detail,
    CASE WHEN NOT e.below_resolution AND e.is_enough THEN e.cause_share END AS cause_share,
    e.times_shortest,
    tw_ratio(e.times_shortest, e.instances) AS shortest_share,
    w.worst_steps, w.worst_share, w.host, w.host_share, w.stage, e.known_instances, e.known_last, e.waited_ns,
    e.waited_free_ns, e.inside_ns,
    coalesce(f.wait_ns, 0) AS origin_wait_ns,
    coalesce(held.wait_ns, 0) AS passed_on_ns,
    held.origin AS origin_rank,
    o.chance
FROM explained AS e
LEFT JOIN {{ ref('worst') }} AS w ON w.rank = e.rank
LEFT JOIN {{ ref('chances') }} AS o ON o.rank = e.rank
LEFT JOIN originated AS f ON f.rank = e.rank AND f.at_step IS NOT DISTINCT FROM e.at_step
LEFT JOIN relayed AS held ON held.rank = e.rank AND held.at_step IS NOT DISTINCT FROM e.at_step
ORDER BY origin_wait_ns DESC, e.caused_wait_ns DESC, e.rank, step NULLS FIRST
