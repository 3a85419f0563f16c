-- shared: turns | waiting for ranks that are late by turns: what neither stragglers nor hosts that launch late explain
-- grain: one row; none where that is less than min_share of the step
-- needs: ref('exposure')
-- param: min_share
-- column: wait_ns DOUBLE | how long, in the mean step, mean over the ranks
-- column: is_rest BOOLEAN | other findings are about a part of the waiting
-- column: is_uneven BOOLEAN | by `pop` the busiest rank computes longer than the mean by a third of it or more
-- column: load_balance DOUBLE | mean / longest compute of a rank
WITH known AS (
    SELECT
        coalesce(sum(b.late_ns) FILTER (NOT t.has_late_host), 0) / any_value(s.windows) + coalesce(any_value(h.wait_ns), 0) AS known_ns,
        bool_or(b.is_straggler OR t.has_late_host) AS is_told
    FROM {{ ref('blame') }} AS b CROSS JOIN {{ ref('mean_step') }} AS s LEFT JOIN {{ ref('late_hosts') }} AS h ON TRUE
    CROSS JOIN LATERAL (SELECT coalesce(list_contains(h.ranks, b.rank), FALSE) AS has_late_host) AS t
    WHERE b.is_straggler OR t.has_late_host OR b.cause = 'other_group'
),
work AS (
    SELECT
        avg(useful_max_ns - useful_mean_ns) AS uneven_ns,
        sum(useful_mean_ns) / nullif(sum(useful_max_ns), 0) AS load_balance
    FROM {{ ref('pop') }} AS p CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE (p.step IS NOT NULL OR NOT s.has_steps) AND p.ranks > 1
)
SELECT
    l.left_ns AS wait_ns,
    coalesce(k.is_told, FALSE) AS is_rest,
    coalesce(3 * w.uneven_ns >= l.left_ns, FALSE) AS is_uneven,
    w.load_balance
FROM {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN known AS k CROSS JOIN work AS w
CROSS JOIN LATERAL (SELECT e.wait_ns - coalesce(k.known_ns, 0) AS left_ns) AS l
WHERE l.left_ns >= {{ param('min_share') }} * s.step_ns
