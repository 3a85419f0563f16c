-- shared: turns | waiting for ranks that are late by turns: what neither stragglers, nor hosts that launch late, nor few ranks' data explain
-- grain: one row; none where that is less than min_share of the step
-- needs: ref('exposure')
-- param: min_share
-- column: wait_ns DOUBLE | how long, in the mean step, mean over the ranks
-- column: longest_ns DOUBLE | how long the rank that comes first to each collective does, mean over the ranks of what they take part in: if all came as early the step were so much shorter at most; less what is_rest says
-- column: is_rest BOOLEAN | other findings are about a part of the waiting
-- column: is_uneven BOOLEAN | by `pop` the busiest rank computes longer than the mean by a third of it or more
-- column: load_balance DOUBLE | mean / longest compute of a rank
WITH known AS (
    SELECT
        coalesce(sum(t.share * b.late_ns) FILTER (NOT t.has_late_host), 0) / any_value(s.windows) + coalesce(any_value(h.wait_ns), 0) AS known_ns,
        sum(t.share * b.apart_ns) AS longest_ns,
        bool_or(b.is_straggler OR t.has_late_host OR d.rank IS NOT NULL) AS is_told
    FROM {{ ref('blame') }} AS b CROSS JOIN {{ ref('mean_step') }} AS s LEFT JOIN {{ ref('late_hosts') }} AS h ON TRUE LEFT JOIN {{ ref('late_for_data') }} AS d ON d.rank = b.rank
    CROSS JOIN LATERAL (SELECT coalesce(list_contains(h.ranks, b.rank), FALSE) AS has_late_host, CASE WHEN b.is_straggler OR has_late_host THEN 1 ELSE coalesce(d.share, 1) END AS share) AS t
    WHERE b.is_straggler OR t.has_late_host OR b.cause = 'other_group' OR d.rank IS NOT NULL
),
-- from when the first of others waits in a call of a rank until nobody does: it waits there, or is late
skews AS (
    SELECT
        collective_id, list(rank) AS ranks, arg_max(until_ns - waits_ns, waits_ns) AS start_ns, arg_max(until_ns, waits_ns) AS end_ns
    FROM (
        SELECT c.collective_id, c.rank, k.start_ns + c.wait_ns AS until_ns, c.exposed_wait_ns AS waits_ns
        FROM {{ ref('exposed_calls') }} AS c JOIN collectives AS k USING (call_id)
        WHERE c.wait_ns IS NOT NULL AND NOT c.is_staged AND NOT c.is_start
    )
    GROUP BY collective_id
),
skewed AS (
    SELECT sum(tw_added_ns(start_ns, end_ns, covered_ns)) AS longest_ns
    FROM (
        SELECT *, max(end_ns) OVER (PARTITION BY rank ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_ns
        FROM (SELECT unnest(ranks) AS rank, start_ns, end_ns FROM skews)
    )
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
    -- no rank waits longer than all do together: where two collectives run at once, breakdown counts the transfer of one, not the wait in the other
    least(greatest(l.left_ns, w.longest_ns / s.windows - coalesce(k.longest_ns, 0)), l.left_ns * s.ranks) AS longest_ns,
    coalesce(k.is_told, FALSE) AS is_rest,
    coalesce(3 * o.uneven_ns >= l.left_ns, FALSE) AS is_uneven,
    o.load_balance
FROM {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN known AS k CROSS JOIN work AS o CROSS JOIN skewed AS w
CROSS JOIN LATERAL (SELECT e.wait_ns - coalesce(k.known_ns, 0) AS left_ns) AS l
WHERE l.left_ns >= {{ param('min_share') }} * s.step_ns
