-- shared: idling | what the mean step idles for each cause, and on which ranks
-- grain: one row per cause
-- reads: clock_spans, device_ops, gpu_ops, host_ops, steps
-- column: cause VARCHAR | as in idle_causes
-- column: ranks INTEGER[] | those that it concerns; NULL: most of them
-- column: cost_ns DOUBLE | idle time per step: where most ranks have it the mean over all, else the mean over those few
-- column: gaps DOUBLE | gaps per step and rank concerned
-- column: host_op VARCHAR | what the host is in for a third of that time or more
-- column: opening VARCHAR | the beginning of a sentence: what idles, for how long, where
-- column: details VARCHAR | its end: how many gaps, and what the host is in
-- column: is_blamed BOOLEAN | the ranks concerned are few, and blamed as stragglers already
WITH by_rank AS (
    SELECT
        i.rank,
        i.cause,
        sum(i.idle_ns) / any_value(r.windows) AS idle_ns,
        CAST(sum(i.gaps) AS BIGINT) / any_value(r.windows) AS gaps
    FROM analysis_idle_causes() AS i
    JOIN shared_rank_windows() AS r USING (rank)
    CROSS JOIN shared_mean_step() AS s
    WHERE (i.step IS NOT NULL OR NOT s.has_steps) AND (i.timeline = 'gpu' OR i.cause = 'data_loading')
    GROUP BY i.rank, i.cause
),
hosts AS (
    SELECT cause, host_op
    FROM (
        SELECT i.cause, i.host_op, sum(i.host_op_ns) AS host_op_ns, sum(sum(i.idle_ns)) OVER (PARTITION BY i.cause) AS idle_ns
        FROM analysis_idle_causes() AS i
        GROUP BY i.cause, i.host_op
    )
    WHERE host_op IS NOT NULL AND 3 * host_op_ns >= idle_ns
    QUALIFY row_number() OVER (PARTITION BY cause ORDER BY host_op_ns DESC, host_op) = 1
),
by_cause AS (
    SELECT
        i.cause,
        2 * count(*) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) > s.ranks AS is_common,
        sum(i.idle_ns) / s.ranks AS mean_ns,
        avg(i.idle_ns) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS affected_ns,
        list(i.rank ORDER BY i.rank) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS affected,
        avg(i.gaps) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS gaps,
        bool_and(b.rank IS NOT NULL) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS is_blamed
    FROM (SELECT *, max(idle_ns) OVER (PARTITION BY cause) AS worst_ns FROM by_rank) AS i
    LEFT JOIN (
        SELECT rank
        FROM shared_blame()
        WHERE is_straggler
    ) AS b USING (rank)
    CROSS JOIN shared_mean_step() AS s
    GROUP BY i.cause, s.ranks
)
SELECT
    i.cause,
    CASE WHEN NOT i.is_common THEN i.affected END AS ranks,
    CASE WHEN i.is_common THEN i.mean_ns ELSE i.affected_ns END AS cost_ns,
    i.gaps,
    h.host_op,
    format('The {} idles {} per {}{}', CASE WHEN s.has_gpu THEN 'GPU' ELSE 'host' END,
        tw_time(CASE WHEN i.is_common THEN i.mean_ns ELSE i.affected_ns END), s.unit,
        CASE WHEN i.is_common THEN '' ELSE ' on ' || tw_ranks(i.affected) END) AS opening,
    coalesce(format(' ({})', tw_about(i.gaps, 'gap')), '') || coalesce(', most in ' || tw_shortened(h.host_op), '') AS details,
    NOT i.is_common AND i.is_blamed AS is_blamed
FROM by_cause AS i CROSS JOIN shared_mean_step() AS s LEFT JOIN hosts AS h USING (cause)
