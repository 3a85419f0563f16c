-- shared: idling | what the mean step idles for each cause, on which ranks, and whether that is a stall that hit few steps
-- grain: one row per cause
-- param: stall_share
-- param: warning_share
-- column: cause VARCHAR | as in idle_causes
-- column: ranks INTEGER[] | those that it concerns; NULL: most of them
-- column: who INTEGER[] | the subject of a title: those, or all where there are one or two; empty: most ranks
-- column: cost_ns DOUBLE | idle time per step: where most ranks have it the mean over all, else the mean over those few; without what stalls add
-- column: mean_ns DOUBLE | idle time per step, mean over all ranks, with what stalls add
-- column: opening VARCHAR | the beginning of a sentence: what idles, for how long, where
-- column: details VARCHAR | its end: how many gaps, and what the host is in
-- column: gap_ns DOUBLE | mean length of a gap; NULL for gaps too short to be looked into
-- column: long_gaps VARCHAR | 'one gap', 'long gaps' (of 1 ms or more): a moment of that time lies in a gap that lasts stall_share of the step, on average; NULL: it does not
-- column: is_blamed BOOLEAN | the ranks concerned are few, and blamed as late ranks already
-- column: host_op VARCHAR | what the host is in for a third of that time or more, in words; ranges that only numbers or a hash tell apart are taken together
-- column: stalled_steps BIGINT[] | the steps that idle so much longer than usual that this is most of the time; NULL if there are none, or if they are more than a third
-- column: steps BIGINT | all steps
-- column: stall_ns DOUBLE | how much longer they idle, per step over all steps, mean over stalled_ranks
-- column: stalled_which VARCHAR | which steps these are, as tw_which_steps says it
-- column: stalled_ranks INTEGER[] | those that do; NULL: most of them
-- column: stalled_for_ns DOUBLE | how much longer they idle in each of these steps, mean over these ranks
-- column: stall_opening VARCHAR | the beginning of a sentence: what idles longer, for how long, where
-- column: stall_host_op VARCHAR | what the host is in for a third of the idle time of these steps or more
WITH idle AS MATERIALIZED (
    SELECT i.rank, i.step, i.cause, i.idle_ns, i.gaps, i.lasting_ns, i.host_op, i.host_op_ns, r.windows
    FROM {{ ref('idle_causes') }} AS i
    JOIN {{ ref('rank_windows') }} AS r USING (rank)
    CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE (i.step IS NOT NULL OR NOT s.has_steps) AND (i.timeline = 'gpu' OR i.cause = 'data_loading')
),
-- a step without gaps of a cause has none of it: that counts in the median
by_step AS MATERIALIZED (
    SELECT c.cause, t.step, coalesce(sum(i.idle_ns), 0) / t.ranks AS idle_ns
    FROM (SELECT DISTINCT cause FROM idle) AS c
    CROSS JOIN (SELECT step, count(*) AS ranks FROM {{ ref('budget') }} WHERE step IS NOT NULL GROUP BY step) AS t
    LEFT JOIN idle AS i ON i.cause = c.cause AND i.step = t.step
    GROUP BY c.cause, t.step, t.ranks
),
usual AS (
    SELECT cause, count(*) AS steps, tw_percentile(idle_ns, 0.5) AS usual_ns, sum(idle_ns) AS total_ns FROM by_step GROUP BY cause
),
stalls AS MATERIALIZED (
    SELECT b.cause, list(b.step ORDER BY b.step) AS stalled_steps, any_value(u.usual_ns) AS usual_ns, any_value(u.steps) AS steps, sum(b.idle_ns - u.usual_ns) / any_value(u.steps) AS stall_ns
    FROM by_step AS b JOIN usual AS u USING (cause) CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE b.cause IN (SELECT cause FROM tw_gap_causes() WHERE whose = 'host' OR cause = 'device_delay')
        AND u.steps > 2 AND b.idle_ns > 2 * u.usual_ns AND b.idle_ns - u.usual_ns >= {{ param('stall_share') }} * s.step_ns
    GROUP BY b.cause
    HAVING 3 * count(*) <= any_value(u.steps) AND 2 * sum(b.idle_ns - u.usual_ns) > any_value(u.total_ns)
),
-- those that idle at least half as much longer there than in a mean other step as the one that does most
stalled_by AS (
    SELECT cause, CASE WHEN 2 * count(*) <= any_value(ranks) THEN list(rank ORDER BY rank) END AS ranks, avg(more_ns) AS more_ns
    FROM (
        SELECT *, max(more_ns) OVER (PARTITION BY cause) AS most_ns
        FROM (
            SELECT
                i.cause, i.rank, any_value(m.ranks) AS ranks,
                sum(CASE WHEN list_contains(s.stalled_steps, i.step) THEN i.idle_ns / len(s.stalled_steps) ELSE -i.idle_ns / (s.steps - len(s.stalled_steps)) END) AS more_ns
            FROM idle AS i JOIN stalls AS s USING (cause) CROSS JOIN {{ ref('mean_step') }} AS m
            GROUP BY i.cause, i.rank
        )
    )
    WHERE 2 * more_ns >= most_ns
    GROUP BY cause
),
-- what the host is in for a third of the time or more: over all steps, and in those with a stall. Ranges that a number
-- or a hash tells apart, such as that of the step, are alike; the step itself is no answer.
named AS MATERIALIZED (
    SELECT *, tw_range_kind(host_op) AS stem FROM idle
),
hosts AS (
    SELECT i.cause, i.is_stall, CASE WHEN count(DISTINCT i.host_op) > 1 THEN 'ranges like ' ELSE '' END || tw_shortened(arg_max(i.host_op, i.host_op_ns)) AS host_op
    FROM (
        SELECT *, FALSE AS is_stall FROM named
        UNION ALL SELECT n.*, TRUE FROM named AS n JOIN stalls AS s ON s.cause = n.cause AND list_contains(s.stalled_steps, n.step)
    ) AS i
    GROUP BY i.cause, i.is_stall, i.stem
    QUALIFY i.stem IS NOT NULL AND 3 * sum(i.host_op_ns) >= sum(sum(i.idle_ns)) OVER (PARTITION BY i.cause, i.is_stall)
        AND row_number() OVER (PARTITION BY i.cause, i.is_stall ORDER BY sum(i.host_op_ns) DESC NULLS LAST, i.stem) = 1
),
lasting AS (
    SELECT
        cause,
        CASE
            WHEN usual_ns < {{ param('stall_share') }} * step_ns THEN NULL
            WHEN is_most THEN 'one gap'
            WHEN usual_ns >= 1000000 THEN 'long gaps' -- between two launches of a host that does nothing else lies less
        END AS long_gaps
    FROM (
        SELECT
            i.cause, any_value(m.step_ns) AS step_ns, sum(i.idle_ns * i.lasting_ns) / sum(i.idle_ns) AS usual_ns, 2 * sum(i.lasting_ns) > sum(i.idle_ns) AS is_most
        FROM idle AS i LEFT JOIN stalls AS s ON s.cause = i.cause AND list_contains(s.stalled_steps, i.step) CROSS JOIN {{ ref('mean_step') }} AS m
        WHERE s.cause IS NULL
        GROUP BY i.cause
    )
),
by_rank AS (
    SELECT
        rank,
        cause,
        sum(idle_ns) / any_value(windows) AS idle_ns,
        CAST(sum(gaps) AS BIGINT) / any_value(windows) AS gaps
    FROM idle
    GROUP BY rank, cause
),
late AS (
    SELECT rank FROM {{ ref('blame') }} WHERE is_straggler
    UNION
    SELECT unnest(ranks) FROM {{ ref('late_together') }}
),
by_cause AS (
    SELECT
        i.cause,
        s.ranks,
        bool_and(b.rank IS NOT NULL) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS are_blamed,
        2 * count(*) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) > s.ranks AS is_common,
        -- what a straggler idles is told of it, but not what the others do as well
        NOT is_common AND are_blamed
        AND coalesce(sum(i.idle_ns) FILTER (WHERE b.rank IS NULL) >= {{ param('warning_share') }} * s.step_ns * (s.ranks - count(b.rank)), FALSE) AS is_beside,
        sum(i.idle_ns) / s.ranks AS mean_ns,
        sum(i.idle_ns) / sum(i.gaps) AS gap_ns,
        avg(i.idle_ns) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS affected_ns,
        list(i.rank ORDER BY i.rank) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS affected,
        avg(i.gaps) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS gaps,
        avg(i.idle_ns) FILTER (WHERE b.rank IS NULL AND i.idle_ns >= i.beside_worst_ns / 2) AS beside_ns,
        list(i.rank ORDER BY i.rank) FILTER (WHERE b.rank IS NULL AND i.idle_ns >= i.beside_worst_ns / 2) AS beside,
        avg(i.gaps) FILTER (WHERE b.rank IS NULL AND i.idle_ns >= i.beside_worst_ns / 2) AS beside_gaps
    FROM (
        SELECT
            *,
            max(idle_ns) OVER (PARTITION BY cause) AS worst_ns,
            max(idle_ns) FILTER (WHERE rank NOT IN (SELECT rank FROM late)) OVER (PARTITION BY cause) AS beside_worst_ns
        FROM by_rank
    ) AS i
    LEFT JOIN late AS b USING (rank)
    CROSS JOIN {{ ref('mean_step') }} AS s
    GROUP BY i.cause, s.ranks, s.step_ns
),
costs AS (
    SELECT
        i.cause,
        CASE WHEN NOT i.is_common AND t.cause IS NULL THEN if(i.is_beside, i.beside, i.affected) END AS ranks,
        -- 'most ranks' of one or two are all of them
        if(i.ranks = 1 OR i.ranks = 2 AND i.is_common, i.affected, []) AS sole,
        CASE WHEN t.cause IS NOT NULL THEN t.usual_ns WHEN i.is_common THEN i.mean_ns WHEN i.is_beside THEN i.beside_ns ELSE i.affected_ns END AS cost_ns,
        i.mean_ns,
        CASE WHEN t.cause IS NULL THEN if(i.is_beside, i.beside_gaps, i.gaps) END AS gaps,
        i.gap_ns,
        NOT i.is_common AND NOT i.is_beside AND i.are_blamed AS is_blamed,
        t.stalled_steps,
        t.stall_ns
    FROM by_cause AS i LEFT JOIN stalls AS t USING (cause)
)
SELECT
    c.cause,
    c.ranks,
    coalesce(c.ranks, c.sole) AS who,
    CAST(c.cost_ns AS DOUBLE) AS cost_ns,
    CAST(c.mean_ns AS DOUBLE) AS mean_ns,
    format('The {} idles {} per {}{}', CASE WHEN s.has_gpu THEN 'GPU' ELSE 'host' END, tw_time(c.cost_ns), s.unit,
        coalesce(' on ' || tw_ranks(c.ranks), '')) AS opening,
    coalesce(format(' ({})', tw_about(c.gaps, 'gap')), '') || coalesce('. The host is then mostly in ' || h.host_op, '') AS details,
    c.gap_ns,
    l.long_gaps,
    c.is_blamed,
    h.host_op,
    c.stalled_steps,
    s.steps,
    t.longer_ns * len(c.stalled_steps) / s.steps AS stall_ns,
    t.which AS stalled_which,
    r.ranks AS stalled_ranks,
    t.longer_ns AS stalled_for_ns,
    format('In {} ({} of {}{}) the {} {}idles {} longer than in the others',
        CASE WHEN starts_with(t.which, 'in every') THEN t.which[4:] ELSE tw_steps(c.stalled_steps) END, len(c.stalled_steps), s.steps,
        CASE WHEN c.stalled_steps[1] = e.every[1] THEN ', the first recorded' ELSE '' END, CASE WHEN s.has_gpu THEN 'GPU' ELSE 'host' END,
        coalesce(format('of {} ', tw_ranks(r.ranks)), ''), tw_time(t.longer_ns)) AS stall_opening,
    x.host_op AS stall_host_op
FROM costs AS c
CROSS JOIN {{ ref('mean_step') }} AS s
LEFT JOIN lasting AS l USING (cause)
LEFT JOIN stalled_by AS r USING (cause)
LEFT JOIN hosts AS h ON h.cause = c.cause AND NOT h.is_stall
LEFT JOIN hosts AS x ON x.cause = c.cause AND x.is_stall
CROSS JOIN (SELECT list(DISTINCT step ORDER BY step) AS every FROM {{ ref('budget') }}) AS e
CROSS JOIN LATERAL (
    SELECT
        tw_which_steps(c.stalled_steps, e.every) AS which,
        CAST(CASE WHEN r.ranks IS NULL THEN c.stall_ns * s.steps / len(c.stalled_steps) ELSE r.more_ns END AS DOUBLE) AS longer_ns
) AS t
