-- rule: read_sum | a sum that the host reads
-- topic: communication
-- needs: ref('exposed_calls'), ref('read_calls')
-- finds: A collective of a few numbers (at most `read_bytes`, 64) in every step, two at least, whose result most ranks read (`.item()`) soon after: a loss, a norm, a count. All ranks are brought together for it, and the host launches nothing meanwhile. Its scenario takes these collectives away, so that who waits there for the work of others waits in the next one. Bound: their time that no compute hides.
-- try: Sum up and read every so many steps; or read the value of the step before.
-- proof: exposed_comm
WITH per_step AS (
    SELECT
        r.op, r.group_id, r.step, any_value(r.read_by) AS read_by,
        count(DISTINCT r.rank) AS readers, count(*) / count(DISTINCT r.rank) AS calls, max(r.bytes) AS bytes
    FROM {{ ref('read_calls') }} AS r
    WHERE r.step IS NOT NULL
    GROUP BY r.op, r.group_id, r.step
),
every AS (
    SELECT op, group_id, any_value(read_by) AS read_by, avg(calls) AS calls, max(bytes) AS bytes
    FROM per_step CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE 2 * readers > s.ranks
    GROUP BY op, group_id, s.steps
    HAVING count(*) = s.steps AND s.steps > 1
)
SELECT
    format('The host reads the result of {} in every {}', e.op, s.unit) AS title,
    e.group_id,
    sum(c.exposed_ns) / any_value(s.windows) AS cost_ns,
    format('op={} group={} bytes=0-{} wait=none', e.op, e.group_id, e.bytes) AS scenario,
    format('The host reads the result of {} ({}) at once in every {}{}, by {}. Compute does not hide {} per {} of that, {} of it waiting',
        e.op, tw_size(e.bytes), s.unit, CASE WHEN e.calls >= 1.5 THEN format(', {} times', round(e.calls)::BIGINT) ELSE '' END, e.read_by,
        tw_time(sum(c.exposed_ns) / any_value(s.windows)), s.unit, tw_time(coalesce(sum(c.exposed_wait_ns), 0) / any_value(s.windows))) AS evidence,
    format('Sum it up and read it every so many {}s, or read the value of the {} before: until then the host goes on', s.unit, s.unit) AS advice
FROM every AS e
JOIN {{ ref('read_calls') }} AS r ON r.op = e.op AND r.group_id IS NOT DISTINCT FROM e.group_id
JOIN {{ ref('exposed_calls') }} AS c ON c.rank = r.rank AND c.collective_id = r.collective_id
CROSS JOIN {{ ref('mean_step') }} AS s
GROUP BY e.op, e.group_id, e.read_by, e.calls, e.bytes, s.unit
