-- The operations that are drawn in a run without GPU activity, each on its rank's own clock: what `device_ops` has for it.
CREATE TABLE memory.explorer.recorded AS
SELECT rank, device, stream, op_id, category, CASE category WHEN 'communication' THEN 'collective' ELSE 'op' END AS class, name, step, start_local_ns, duration_ns
FROM device_ops
ORDER BY rank, start_local_ns;
