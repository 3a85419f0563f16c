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
)
SELECT rank, collective_id, step, op, group_id, bytes, any_value(read_by) AS read_by
FROM followed
-- a division, a stack and a mean may come before; what is read after six others (in ddp_gloo_4ranks, in fsdp2_gloo nine) is something else
WHERE others <= 3
GROUP BY rank, collective_id, step, op, group_id, bytes
UNION ALL
SELECT rank, collective_id, step, op, group_id, bytes, NULL AS read_by FROM small WHERE op = 'barrier'
