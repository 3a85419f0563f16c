-- shared: read_calls | collectives that the host waits for: of a few numbers, whose result it reads soon after, barriers, and Python objects
-- grain: one row per rank and such collective
-- needs: collectives, host_ops
-- param: read_bytes
-- column: rank INTEGER | global rank
-- column: collective_id BIGINT | the same value on all ranks of one instance
-- column: step BIGINT | step in which it was issued
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group
-- column: bytes BIGINT | size
-- column: read_by VARCHAR | the operator that reads; NULL: a barrier, which has no result and makes the host wait by itself
-- column: objects VARCHAR | of Python objects, their sizes and their bytes: the operation that carries the bytes
-- column: is_payload BOOLEAN | it carries those bytes
WITH small AS MATERIALIZED (
    SELECT k.rank, k.collective_id, k.step, k.op, k.group_id, k.bytes, k.dtype, i.pid, i.tid, i.end_ns
    FROM collectives AS k JOIN tw_issued AS i USING (call_id)
    WHERE k.bytes <= {{ param('read_bytes') }} OR k.op = 'barrier'
),
-- the operators of threads that issue any
operators AS MATERIALIZED (
    SELECT h.rank, h.name, h.start_ns, h.step, h.parent_id, s.pid, s.tid
    FROM host_ops AS h
    JOIN (SELECT DISTINCT rank, pid, tid FROM small WHERE op <> 'barrier') AS s
        ON s.rank = h.rank AND s.pid = coalesce(h.pid, -1) AND s.tid = coalesce(h.tid, -1)
    WHERE h.kind = 'op'
),
readings AS MATERIALIZED (
    SELECT n.*, r.name AS read_by, r.start_ns AS read_ns
    FROM (FROM small WHERE op <> 'barrier') AS n
    ASOF JOIN (FROM operators WHERE name IN ('aten::item', 'aten::_local_scalar_dense', 'aten::is_nonzero')) AS r
        ON r.rank = n.rank AND r.pid = n.pid AND r.tid = n.tid AND n.end_ns <= r.start_ns
    WHERE r.step IS NOT DISTINCT FROM n.step
),
-- how many other operators begin before, those inside others apart (sweeps)
followed AS (
    SELECT unnest(n.rows, recursive := TRUE), unnest(sweep_within(o.starts, n.ends, n.reads).number) AS others
    FROM (
        SELECT rank, pid, tid, list(readings) AS rows, list(end_ns) AS ends, list(read_ns - 1) AS reads
        FROM readings
        GROUP BY rank, pid, tid
    ) AS n
    JOIN (
        SELECT rank, pid, tid, list(start_ns) AS starts
        FROM operators SEMI JOIN readings USING (rank, pid, tid)
        WHERE coalesce(parent_id NOT IN (SELECT op_id FROM host_ops WHERE kind = 'op'), TRUE)
        GROUP BY rank, pid, tid
    ) AS o USING (rank, pid, tid)
),
read AS MATERIALIZED (
    SELECT rank, pid, tid, end_ns, collective_id, step, op, group_id, bytes, dtype, any_value(read_by) AS read_by
    FROM followed
    -- a division, a stack and a mean may come before; what is read after six others (in ddp_gloo_4ranks, in fsdp2_gloo nine) is something else
    WHERE others <= 3
    GROUP BY ALL
),
-- sizes of objects, whose bytes the next such call carries, and what torch alone calls between (all_gather_object, gather_object,
-- broadcast_object_list, recv_object_list):
-- a job may exchange bytes of its own by their sizes. scatter_object_list sends the largest size, bytes, and the size of each
sizes AS MATERIALIZED (
    SELECT r.*, k.next.op AS next_op, k.next.collective_id AS next_id, k.next.bytes AS next_bytes,
        if(next_op = 'scatter', k.third.collective_id, NULL) AS third_id, k.third.bytes AS third_bytes,
        k.next.dtype IN ('Byte', 'unsigned char') AND if(next_op = 'scatter', k.third.op = 'scatter' AND k.third.dtype = r.dtype, h.start_ns < k.next.start_ns) AS is_followed
    FROM read AS r
    JOIN (
        SELECT c.rank, c.collective_id, struct_pack(c.op, c.collective_id, c.bytes, c.dtype, i.start_ns) AS this, lead(this) OVER calls AS next, lead(this, 2) OVER calls AS third
        -- of a scatter the root alone records what it is of
        FROM (
            SELECT * REPLACE (coalesce(bytes, max(bytes) OVER one) AS bytes, coalesce(dtype, max(dtype) OVER one) AS dtype)
            FROM collectives
            WHERE op IN ('all_gather', 'gather', 'broadcast', 'scatter', 'recv')
            WINDOW one AS (PARTITION BY coalesce(collective_id, -call_id))
        ) AS c
        JOIN tw_issued AS i USING (call_id)
        WINDOW calls AS (PARTITION BY c.rank, CASE c.op WHEN 'gather' THEN 'all_gather' WHEN 'scatter' THEN 'broadcast' ELSE c.op END, c.group_id ORDER BY i.start_ns)
    ) AS k ON k.rank = r.rank AND k.collective_id = r.collective_id
    ASOF LEFT JOIN (SELECT rank, coalesce(pid, -1) AS pid, coalesce(tid, -1) AS tid, name, start_ns FROM host_ops WHERE name IN ('aten::resize_', 'aten::sum')) AS h
        ON h.rank = r.rank AND h.pid = r.pid AND h.tid = r.tid AND h.name = CASE r.op WHEN 'all_gather' THEN 'aten::resize_' ELSE 'aten::sum' END AND r.end_ns <= h.start_ns
    WHERE r.dtype IN ('Long', 'long int')
    QUALIFY bool_and(coalesce(is_followed, FALSE)) OVER (PARTITION BY r.op, r.group_id)
)
SELECT r.rank, r.collective_id, r.step, r.op, r.group_id, r.bytes, r.read_by, s.next_op AS objects, FALSE AS is_payload
FROM read AS r LEFT JOIN sizes AS s USING (rank, collective_id) ANTI JOIN sizes AS b ON b.rank = r.rank AND r.collective_id IN (b.next_id, b.third_id)
UNION ALL
SELECT rank, next_id, step, next_op AS op, group_id, next_bytes, read_by, next_op AS objects, TRUE FROM sizes
UNION ALL
SELECT rank, third_id, step, next_op AS op, group_id, third_bytes, read_by, next_op AS objects, TRUE FROM sizes WHERE third_id IS NOT NULL
UNION ALL
SELECT rank, collective_id, step, op, group_id, bytes, NULL, NULL, FALSE FROM small WHERE op = 'barrier'
