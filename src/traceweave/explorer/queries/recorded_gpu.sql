-- The operations that are drawn, each on its rank's own clock.
CREATE VIEW memory.explorer.recorded AS
SELECT rank, device, stream, op_id, category, class, name, step, start_local_ns, duration_ns
FROM run.base.gpu_ops
WHERE rank IS NOT NULL;
