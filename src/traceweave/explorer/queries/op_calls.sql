-- The collectives that an operation carries: what its rank knows of them.
SELECT k.collective_id, k.op, k.group_id, g.description AS group_name, k.dtype, k.bytes, k.seq, k.match, k.peer
FROM collectives AS k LEFT JOIN groups AS g USING (group_id)
WHERE k.rank = $rank AND $id IN (coalesce(k.gpu_op_id, k.host_op_id), k.receive_op_id)
ORDER BY k.call_id
