-- How long each operation that carries a collective waited for the last rank, within its length. A send half waits for nobody.
INSERT INTO memory.explorer.waits
SELECT coalesce(k.gpu_op_id, k.host_op_id) AS op_id, max(least(greatest(i.last_start_ns - k.start_ns, 0), k.duration_ns))
FROM collectives AS k JOIN collective_instances AS i USING (collective_id)
WHERE i.ranks_seen >= 2 AND NOT i.is_buffered AND k.receive_op_id IS NULL AND coalesce(k.gpu_op_id, k.host_op_id) IS NOT NULL
GROUP BY ALL
