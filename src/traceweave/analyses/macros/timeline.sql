-- The device timeline as a rank's own clock has it.

-- macro: tw_own_ops() | device_ops on each rank's own clock: rank, timeline, op_id, category, name, device, stream, step, start_ns, end_ns, launch_op_id
-- reads: device_ops
CREATE TEMP MACRO IF NOT EXISTS tw_own_ops() AS TABLE
SELECT
    rank, timeline, op_id, category, name, device, stream, step,
    start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns, launch_op_id
FROM device_ops;
