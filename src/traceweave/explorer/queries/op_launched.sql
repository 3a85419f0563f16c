-- What a call launched, at most 20 operations.
SELECT op_id AS id, rank, name, start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, duration_ns
FROM gpu_ops
WHERE rank = $rank AND launch_op_id = $id
ORDER BY start_ns
LIMIT 20
