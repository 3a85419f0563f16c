-- rule: weak_clocks | clocks that cannot tell ranks apart
-- topic: what costs no time
-- needs: ref('matching')
-- finds: Waiting that costs `min_share` of a step or more lies below the clock resolution, or collectives end before they begin.
-- try: Record all ranks over the same, more steps.
-- proof: clock_quality
-- param: warning_share
-- param: min_share
SELECT
    CASE WHEN m.violations > 0 THEN format('{} collectives end on one rank before another begins', m.violations)
        ELSE format('Ranks wait {} per {} below the clock resolution', tw_time(u.unresolved_ns), s.unit) END AS title,
    CASE WHEN u.unresolved_ns >= {{ param('warning_share') }} * s.step_ns OR m.violations > 0 THEN 'warning' END AS severity,
    nullif(list(DISTINCT q.rank ORDER BY q.rank) FILTER (WHERE q.residual_p95_ns IS NULL OR q.violations > 0), []) AS ranks,
    concat_ws('. ',
        CASE WHEN u.unresolved_ns > 0 THEN
            format('Clocks tell ranks apart by {}; {} per {} of waiting is below that, so who is late there is not known',
                coalesce(CASE WHEN count(q.residual_p95_ns) = count(*) THEN tw_time(max(q.residual_p95_ns)) END, 'an unknown time'),
                tw_time(u.unresolved_ns), s.unit) END,
        CASE WHEN m.violations > 0 THEN format('{} collectives end on one rank before they begin on another', m.violations) END) AS evidence,
    'Record all ranks over the same steps, longer, with collectives that all of them share; run traceweave align' AS advice
FROM {{ ref('clock_quality') }} AS q
CROSS JOIN {{ ref('mean_step') }} AS s
CROSS JOIN {{ ref('matching', per='run') }} AS m
CROSS JOIN (
    SELECT coalesce(sum(c.exposed_wait_ns), 0) / (SELECT windows FROM {{ ref('mean_step') }}) AS unresolved_ns
    FROM {{ ref('exposed_calls') }} AS c JOIN collective_instances AS i USING (collective_id)
    WHERE i.below_resolution AND NOT c.is_staged
) AS u
WHERE q.instances > 0
GROUP BY u.unresolved_ns, s.step_ns, s.unit, m.violations
HAVING u.unresolved_ns >= {{ param('min_share') }} * s.step_ns OR m.violations > 0
