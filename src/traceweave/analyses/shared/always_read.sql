-- shared: always_read | what most hosts that get it wait for in every step, two at least, of what read_calls has
-- grain: one row per operation, process group and what objects are read
-- needs: ref('read_calls')
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group
-- column: kind INTEGER | as in alike_groups
-- column: read_by VARCHAR | the operator that reads; NULL: a barrier
-- column: objects VARCHAR | as in read_calls
-- column: is_payload BOOLEAN | as in read_calls
-- column: calls BIGINT | per step
-- column: bytes_min BIGINT | the smallest
-- column: bytes BIGINT | the largest
WITH per_step AS (
    SELECT
        r.op, r.group_id, g.kind, r.objects, r.is_payload, r.step, any_value(r.read_by) AS read_by,
        -- who sends it has it
        count(DISTINCT r.rank) FILTER (i.root IS DISTINCT FROM r.rank OR r.op NOT IN ('broadcast', 'scatter')) AS readers,
        count(*) / count(DISTINCT r.rank) AS calls, min(r.bytes) AS bytes_min, max(r.bytes) AS bytes
    FROM {{ ref('read_calls') }} AS r LEFT JOIN {{ ref('alike_groups') }} AS g USING (group_id) LEFT JOIN collective_instances AS i USING (collective_id)
    WHERE r.step IS NOT NULL AND tw_counts(r.rank, r.step)
    GROUP BY r.op, r.group_id, g.kind, r.objects, r.is_payload, r.step
)
SELECT op, group_id, kind, any_value(read_by) AS read_by, objects, is_payload, round(avg(calls))::BIGINT AS calls, min(bytes_min) AS bytes_min, max(bytes) AS bytes
FROM (
    -- each group that does the same for other ranks has some of all readers
    SELECT *, sum(readers) OVER (PARTITION BY op, kind, objects, is_payload, step) AS of_all FROM per_step
) CROSS JOIN {{ ref('mean_step') }} AS s
WHERE op = 'recv' OR 2 * of_all > s.ranks - CASE WHEN op IN ('broadcast', 'scatter') THEN 1 ELSE 0 END
GROUP BY op, group_id, kind, objects, is_payload, s.steps
HAVING count(*) = s.steps AND s.steps > 1
