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
        coalesce(sum(b.late_ns) FILTER (NOT coalesce(list_contains(h.ranks, b.rank), FALSE)), 0) / any_value(s.windows) + coalesce(any_value(h.wait_ns), 0) AS known_ns,
        bool_or(b.is_straggler OR coalesce(list_contains(h.ranks, b.rank), FALSE)) AS is_told
    FROM {{ ref('blame') }} AS b CROSS JOIN {{ ref('mean_step') }} AS s LEFT JOIN {{ ref('late_hosts') }} AS h ON TRUE
    WHERE b.is_straggler OR coalesce(list_contains(h.ranks, b.rank), FALSE) OR b.cause = 'other_group'
),
work AS (
    SELECT
        avg(useful_max_ns - useful_mean_ns) AS uneven_ns,
        sum(useful_mean_ns) / nullif(sum(useful_max_ns), 0) AS load_balance
    FROM {{ ref('pop') }} AS p CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE (p.step IS NOT NULL OR NOT s.has_steps) AND p.ranks > 1
)
SELECT
    e.wait_ns - coalesce(k.known_ns, 0) AS wait_ns,
    coalesce(k.is_told, FALSE) AS is_rest,
    coalesce(3 * w.uneven_ns >= e.wait_ns - coalesce(k.known_ns, 0), FALSE) AS is_uneven,
    w.load_balance
FROM {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN known AS k CROSS JOIN work AS w
WHERE e.wait_ns - coalesce(k.known_ns, 0) >= {{ param('min_share') }} * s.step_ns
