-- The call that launched an operation, where it lies.
SELECT op_id AS id, rank, name, kind, start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, duration_ns
FROM host_ops
WHERE rank = $rank AND op_id = $id
