-- What the collectives say of the op that carried them: the kernel, or the host operation of a host backend. An op that
-- carries several (fused by NCCL group calls) names them all.
SELECT
    k.rank,
    coalesce(k.gpu_op_id, k.host_op_id) AS op_id,
    list(DISTINCT k.collective_id ORDER BY k.collective_id) FILTER (k.collective_id IS NOT NULL) AS collective_ids,
    min(k.collective_id) AS collective_id,
    string_agg(DISTINCT k.op, ' + ' ORDER BY k.op) AS op,
    string_agg(DISTINCT coalesce(g.description, g.name, CAST(g.group_id AS VARCHAR)), ' + ') AS "group",
    string_agg(DISTINCT k.dtype, ' + ') AS dtype,
    CAST(sum(k.bytes) AS BIGINT) AS bytes,
    min(k.seq) AS seq,
    min(k.match) AS match,
    max(w.wait_ns) AS wait_ns,
    min(w.last_rank) AS last_rank
FROM collectives AS k
LEFT JOIN groups AS g USING (group_id)
LEFT JOIN collective_waits AS w ON w.collective_id = k.collective_id AND w.rank = k.rank
WHERE coalesce(k.gpu_op_id, k.host_op_id) IS NOT NULL AND ($ranks IS NULL OR list_contains($ranks, k.rank))
GROUP BY ALL
