-- shared: blame | what each rank's lateness costs the rank that waits longest for it, and whether it alone is to blame
-- grain: one row per rank that came last, or held up those who did
-- needs: ref('stragglers'), ref('exposed_calls')
-- param: min_share
-- param: straggler_factor
-- param: straggler_chance
-- column: stands_out BOOLEAN | it costs min_share of the step and straggler_factor times what the others do on average, without what one of them does in few steps, and is not late only because another group held it up, or because ranks like it compute as long; where the collective before ended later on it, what is left does
-- column: is_straggler BOOLEAN | it stands out more than chance (straggler_chance) would have it, and does not come late together with others
-- column: rank INTEGER | global rank
-- column: late_ns BIGINT | time without compute in which others waited for it alone, over all of them and all steps, stages of a pipeline apart
-- column: staged_ns BIGINT | the same of stages: no longer each than it idles longer than the others, in most steps; nothing where most of its lateness is longer compute, which the schedule may have it wait for
-- column: cost_ns DOUBLE | of that, per step, what the rank that waits longest waits
-- column: apart_ns DOUBLE | the same, stages of a pipeline apart
-- column: waiters BIGINT | ranks that wait for it
-- column: sends BOOLEAN | most of late_ns they wait in a broadcast or scatter of its own, for what it sends
-- column: updates BOOLEAN | most of that is sent inside Optimizer.step: parameters that it updates for all
-- column: cause VARCHAR | as in stragglers; of whom stands out, what it did itself
-- column: cause_detail VARCHAR | what the cause is made of
-- column: cause_share DOUBLE | as in stragglers
-- column: known_last BIGINT | collectives in which it came last, where the clocks can tell
-- column: known_instances BIGINT | its collectives in which the clocks can tell who came last
-- column: instances BIGINT | all that it shares with other ranks
-- column: held_up BIGINT[] | ranks most of whose lateness goes back to it; NULL if there are none
-- column: chance DOUBLE | as in stragglers
WITH idle AS (
    SELECT d.rank, sum(d.excess_ns) AS more_ns
    FROM {{ ref('differences') }} AS d CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE d.kind = 'idle' AND coalesce(2 * len(d.steps) > s.steps, TRUE)
        AND d.rank NOT IN (SELECT rank FROM {{ ref('late_causes', per='run') }} WHERE own_cause = 'compute')
    GROUP BY d.rank
),
late AS (
    SELECT
        late_rank AS rank,
        CAST(sum(late_ns) AS BIGINT) AS late_ns,
        CAST(sum(staged_ns) AS BIGINT) AS staged_ns,
        max((late_ns + staged_ns) / windows) AS cost_ns,
        max(late_ns / windows) AS apart_ns,
        count(*) FILTER (WHERE late_ns + staged_ns > 0) AS waiters,
        2 * sum(sent_ns) > sum(late_ns) AS sends,
        sends AND 2 * sum(updated_ns) > sum(sent_ns) AS updates
    FROM (
        SELECT
            c.late_rank, c.rank, coalesce(sum(c.late_ns) FILTER (WHERE NOT c.is_staged), 0) AS late_ns,
            least(coalesce(sum(c.late_ns) FILTER (WHERE c.is_staged), 0), coalesce(any_value(i.more_ns * c.windows), 0)) AS staged_ns,
            coalesce(sum(c.late_ns) FILTER (WHERE c.is_sent AND NOT c.is_staged), 0) AS sent_ns,
            coalesce(sum(c.late_ns) FILTER (WHERE c.is_sent AND NOT c.is_staged AND c.use = 'optimizer'), 0) AS updated_ns, any_value(c.windows) AS windows
        FROM {{ ref('exposed_calls') }} AS c LEFT JOIN idle AS i ON i.rank = c.late_rank
        WHERE c.late_rank IS NOT NULL AND NOT c.is_start
        GROUP BY c.late_rank, c.rank
    )
    GROUP BY late_rank
),
few AS (
    SELECT l.rank, sum(l.late_ns) AS late_ns
    FROM {{ ref('late_steps') }} AS l JOIN {{ ref('chances') }} AS c ON c.rank = l.rank AND list_contains(c.few, l.step)
    GROUP BY l.rank
),
-- of whom the collective before ended later on, what it did longer itself
own AS (
    SELECT
        l.rank, o.own_cause, o.own_detail, o.own_share,
        coalesce(s.cause = 'late_end', FALSE) AS is_end,
        CASE WHEN is_end THEN 1 - s.cause_share ELSE 1 END AS own,
        own * l.cost_ns AS own_ns,
        k.rank IS NULL AS is_unlike,
        -- what one does in few steps does not make the others late there
        l.cost_ns * (1 - least(coalesce(e.late_ns / nullif(l.late_ns, 0), 0), 1)) AS often_ns
    FROM late AS l
    JOIN {{ ref('stragglers') }} AS s USING (rank)
    LEFT JOIN {{ ref('late_causes', per='run') }} AS o USING (rank)
    LEFT JOIN few AS e USING (rank)
    LEFT JOIN {{ ref('as_its_like', per='run') }} AS k USING (rank)
)
SELECT
    coalesce(CASE WHEN b.is_end THEN coalesce(b.own_cause, 'other_group') ELSE s.cause END <> 'other_group', TRUE)
        AND b.is_unlike AND b.own_ns >= {{ param('min_share') }} * m.step_ns
        AND b.own_ns >= {{ param('straggler_factor') }} * (sum(b.often_ns) OVER () - b.often_ns) / greatest(m.ranks - 1, 1) AS stands_out,
    stands_out AND coalesce(s.chance <= {{ param('straggler_chance') }}, FALSE)
        AND l.rank NOT IN (SELECT unnest(ranks) FROM {{ ref('late_together') }}) AS is_straggler,
    l.* REPLACE (
        if(stands_out, b.own_ns, l.cost_ns) AS cost_ns, if(stands_out, b.own, 1) * l.apart_ns AS apart_ns,
        if(stands_out, CAST(round(b.own * l.late_ns) AS BIGINT), l.late_ns) AS late_ns
    ),
    if(stands_out AND b.is_end, b.own_cause, s.cause) AS cause,
    if(stands_out AND b.is_end, b.own_detail, s.cause_detail) AS cause_detail,
    if(stands_out AND b.is_end, b.own_share / b.own, s.cause_share) AS cause_share,
    s.known_last,
    s.known_instances,
    s.instances,
    h.ranks AS held_up,
    s.chance
FROM late AS l
JOIN {{ ref('stragglers') }} AS s USING (rank)
JOIN own AS b USING (rank)
LEFT JOIN (
    SELECT origin_rank AS rank, list(CAST(rank AS BIGINT) ORDER BY rank) AS ranks
    FROM {{ ref('stragglers') }}
    -- others wait for it: one that is never last passes on what nobody notices
    WHERE caused_wait_ns > 0 AND 2 * passed_on_ns > caused_wait_ns
    GROUP BY origin_rank
) AS h USING (rank)
CROSS JOIN {{ ref('mean_step') }} AS m
