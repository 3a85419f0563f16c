-- What ran from $from_ns to $until_ns on $ranks, times from the first of them: operations of one kind that are closer to each
-- other than 1/2000 of the stretch are one bar. own: launched in the step $step (NULL: all are). kind: 'waiting' until the
-- last rank of a collective came.
WITH ops AS (
    SELECT
        rank, timeline, op_id, category,
        $step IS NULL OR (step IS NOT NULL AND step = $step) AS own,
        greatest(start_ns, $from_ns) AS start_ns,
        least(end_ns, $until_ns) AS end_ns
    FROM device_ops
    WHERE start_ns < $until_ns AND end_ns > $from_ns AND list_contains($ranks, rank)
),
met AS (
    SELECT
        CASE WHEN k.gpu_op_id IS NULL THEN 'cpu' ELSE 'gpu' END AS timeline,
        -- a send half waits for nobody
        coalesce(k.receive_op_id, k.gpu_op_id, k.host_op_id) AS op_id,
        max(CASE WHEN i.is_buffered OR NOT awaits_others(i.op, i.root, k.rank) THEN k.start_ns ELSE i.awaited_ns END) AS awaited_ns
    FROM collectives AS k JOIN collective_instances AS i USING (collective_id)
    WHERE i.ranks_seen >= 2
    GROUP BY ALL
),
parts AS (
    SELECT
        o.rank,
        o.category,
        o.own,
        unnest(CASE
            WHEN o.category = 'compute' THEN [{kind: 'compute', a: o.start_ns, b: o.end_ns}]
            WHEN o.category = 'memory' THEN [{kind: 'copies', a: o.start_ns, b: o.end_ns}]
            WHEN m.awaited_ns IS NULL THEN [{kind: 'communication', a: o.start_ns, b: o.end_ns}]
            ELSE [
                {kind: 'waiting', a: o.start_ns, b: least(greatest(m.awaited_ns, o.start_ns), o.end_ns)},
                {kind: 'transfer', a: least(greatest(m.awaited_ns, o.start_ns), o.end_ns), b: o.end_ns}
            ]
        END) AS part
    FROM ops AS o LEFT JOIN met AS m USING (timeline, op_id)
),
bars AS (
    SELECT
        rank, category, own, part.kind AS kind, part.a AS start_ns, part.b AS end_ns,
        part.a - max(part.b) OVER (
            PARTITION BY rank, category, own, part.kind ORDER BY part.a, part.b
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS after_ns
    FROM parts
    WHERE part.b > part.a
),
numbered AS (
    SELECT *, count(*) FILTER (after_ns IS NULL OR after_ns > greatest(($until_ns - $from_ns) // 2000, 1)) OVER (
        PARTITION BY rank, category, own, kind ORDER BY start_ns, end_ns
    ) AS number
    FROM bars
)
SELECT rank, category, own, kind, min(start_ns) - $from_ns AS start_ns, max(end_ns) - min(start_ns) AS duration_ns
FROM numbered
GROUP BY rank, category, own, kind, number
ORDER BY ALL
