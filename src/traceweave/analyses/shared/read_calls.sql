-- shared: read_calls | collectives that the host waits for: of a few numbers, whose result it reads soon after, and barriers
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
WITH small AS MATERIALIZED (
    SELECT k.rank, k.collective_id, k.step, k.op, k.group_id, k.bytes, i.pid, i.tid, i.end_ns
    FROM collectives AS k JOIN tw_issued AS i USING (call_id)
    WHERE k.bytes <= {{ param('read_bytes') }} OR k.op = 'barrier'
),
-- the operators of threads that issue any, in their order
operators AS (
    SELECT
        h.rank, h.name, h.start_ns, h.step, s.pid, s.tid,
        row_number() OVER (PARTITION BY s.rank, s.pid, s.tid ORDER BY h.start_ns, h.op_id) AS place
    FROM host_ops AS h
    JOIN (SELECT DISTINCT rank, pid, tid FROM small) AS s ON s.rank = h.rank AND s.pid = coalesce(h.pid, -1) AND s.tid = coalesce(h.tid, -1)
    WHERE h.kind = 'op'
),
nexts AS (
    SELECT s.*, o.place
    FROM small AS s ASOF JOIN operators AS o ON o.rank = s.rank AND o.pid = s.pid AND o.tid = s.tid AND s.end_ns <= o.start_ns
    WHERE s.op <> 'barrier'
)
SELECT n.rank, n.collective_id, n.step, n.op, n.group_id, n.bytes, any_value(r.name) AS read_by
FROM nexts AS n
ASOF JOIN (FROM operators WHERE name IN ('aten::item', 'aten::_local_scalar_dense', 'aten::is_nonzero')) AS r
    ON r.rank = n.rank AND r.pid = n.pid AND r.tid = n.tid AND n.end_ns <= r.start_ns
-- a division, a view may come before; what is read after 26 others (in fsdp2_gloo, of the optimizer) is something else
WHERE r.place - n.place <= 8 AND r.step IS NOT DISTINCT FROM n.step
GROUP BY n.rank, n.collective_id, n.step, n.op, n.group_id, n.bytes
UNION ALL
SELECT rank, collective_id, step, op, group_id, bytes, NULL AS read_by FROM small WHERE op = 'barrier'
