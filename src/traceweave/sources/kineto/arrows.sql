-- Flow arrows -> base.flows. Input: events, new_host_ops, new_gpu_ops, paired_arrow_ends (empty), which says which were stored.

-- An arrow carries the track and the time of the op it starts from or leads to. Launch arrows repeat what `correlation`
-- says and are not among these.
CREATE OR REPLACE TEMP TABLE arrow_ends AS
WITH arrows AS (
    SELECT
        source_id, rank, op_id AS event_id, cat, id, CASE ph WHEN 's' THEN 'from' ELSE 'to' END AS side, start_ns,
        TRY_CAST(pid AS BIGINT) AS pid, TRY_CAST(tid AS BIGINT) AS tid
    FROM events WHERE lane = 'arrow'
),
ops AS (
    SELECT rank, pid, tid, start_local_ns, op_id FROM new_host_ops WHERE kind <> 'annotation'
    UNION ALL
    SELECT rank, device AS pid, stream AS tid, start_local_ns, op_id FROM new_gpu_ops
)
SELECT a.rank, a.event_id, a.side, a.cat, a.id, max(o.op_id) AS op_id
FROM arrows AS a JOIN ops AS o ON a.rank = o.rank AND a.pid = o.pid AND a.tid = o.tid AND a.start_ns = o.start_local_ns
GROUP BY a.rank, a.event_id, a.side, a.cat, a.id;

INSERT INTO paired_arrow_ends BY NAME
SELECT rank, event_id, side, cat, id, op_id
FROM (
    SELECT *, count(DISTINCT side) OVER (PARTITION BY rank, cat, id) AS sides FROM arrow_ends
)
WHERE sides = 2;

INSERT INTO base.flows BY NAME
SELECT s.rank, s.source_id, a.cat AS kind, a.op_id AS from_op_id, b.op_id AS to_op_id
FROM paired_arrow_ends AS a
JOIN paired_arrow_ends AS b ON a.rank = b.rank AND a.cat = b.cat AND a.id = b.id
JOIN new_source AS s ON a.rank = s.rank
WHERE a.side = 'from' AND b.side = 'to';
