-- DeepEP's low latency kernels with receive hooks: an operation is a send half and a receive half, between which its data move and the
-- stream computes. One row of new_collective_calls for both, from the start of the one to the end of the other.
-- Input: new_gpu_ops, classified, new_collective_calls, only_members.
--
-- No name tells a half from a whole. Whole operations have a stream of their own, halves run on that of the compute: so
-- on one stream every run of equal kernels is pairs, and what computes runs inside of (nearly) all of them. That a scheduler of graphs
-- may do with whole ones too, so the durations of dispatches have to show it as well: sends wait for nobody and are of one batch,
-- so they are alike, and mostly longer than their receives or mostly shorter. (Sends of combine are as long as experts had tokens.)
CREATE OR REPLACE TEMP TABLE halves AS
WITH named AS (
    SELECT kind, name, regexp_extract(name, '\binternode_ll::(dispatch|combine)\b', 1) AS operation FROM classified WHERE operation <> ''
),
kernels AS (
    SELECT
        source_of(g.op_id) AS source_id, g.device, g.context, g.stream, g.op_id, n.operation, g.name, g.start_local_ns, g.duration_ns,
        row_number() OVER (PARTITION BY source_of(g.op_id), g.device, g.context, g.stream ORDER BY g.start_local_ns, g.op_id) AS place
    FROM new_gpu_ops AS g LEFT JOIN named AS n USING (kind, name)
),
-- the number of a kernel less its number among those of its name is the same throughout a run of equals, and of no other run
numbered AS (
    SELECT
        *,
        row_number() OVER stream - row_number() OVER stream_and_name AS run
    FROM kernels
    WHERE operation IS NOT NULL
    WINDOW
        stream AS (PARTITION BY source_id, device, context, stream ORDER BY place),
        stream_and_name AS (PARTITION BY source_id, device, context, stream, name ORDER BY place)
),
paired AS (
    SELECT
        source_id, device, context, stream, operation, op_id, duration_ns,
        count(*) OVER of_run % 2 = 0 AS is_even,
        row_number() OVER in_run % 2 = 1 AS is_first,
        lead(op_id) OVER in_run AS receive_op_id,
        lead(duration_ns) OVER in_run AS receive_ns,
        lead(start_local_ns) OVER in_run + receive_ns AS end_local_ns,
        lead(place) OVER in_run > place + 1 AS computes
    FROM numbered
    WINDOW
        of_run AS (PARTITION BY source_id, device, context, stream, name, run),
        in_run AS (PARTITION BY source_id, device, context, stream, name, run ORDER BY place)
),
streams AS (
    SELECT source_id, device, context, stream
    FROM paired
    WHERE is_first
    GROUP BY ALL
    HAVING bool_and(is_even) AND avg(computes::INTEGER) >= 0.95 AND count(DISTINCT operation) = 2
        AND count(*) FILTER (operation = 'dispatch') >= 16
        AND quantile_disc(duration_ns, 0.95) FILTER (operation = 'dispatch') <= 2 * quantile_disc(duration_ns, 0.05) FILTER (operation = 'dispatch')
        AND abs(avg(sign(duration_ns - receive_ns)) FILTER (operation = 'dispatch')) >= 0.6
)
SELECT p.op_id, p.receive_op_id, p.end_local_ns
FROM paired AS p
JOIN streams AS s
    ON s.source_id = p.source_id AND s.device IS NOT DISTINCT FROM p.device AND s.context IS NOT DISTINCT FROM p.context
    AND s.stream IS NOT DISTINCT FROM p.stream
WHERE p.is_first;

UPDATE new_collective_calls AS c
SET receive_op_id = h.receive_op_id, duration_ns = h.end_local_ns - c.start_local_ns
FROM halves AS h
WHERE h.op_id = c.gpu_op_id;

-- DeepEP works on a group of torch's, and ends of halves prove none: where all groups of several ranks have the same members, theirs.
UPDATE new_collective_calls AS c
SET group_ranks = g.ranks, group_size = len(g.ranks)
FROM only_members AS g
WHERE c.receive_op_id IS NOT NULL AND c.group_name IS NULL AND g.rank = c.rank;

DELETE FROM new_collective_calls WHERE gpu_op_id IN (SELECT receive_op_id FROM halves);
