-- Staged GPU ops get their launching call. Input: new_gpu_ops, new_host_ops.

-- The API call with the op's correlation id; ops that a loader has linked itself stay as they are.
UPDATE new_gpu_ops SET launch_op_id = calls.op_id
FROM (
    SELECT rank, correlation, arg_min(op_id, start_local_ns) AS op_id
    FROM new_host_ops
    WHERE kind IN ('runtime', 'driver') AND correlation IS NOT NULL
    GROUP BY rank, correlation
) AS calls
WHERE new_gpu_ops.launch_op_id IS NULL
    AND new_gpu_ops.rank = calls.rank AND new_gpu_ops.correlation = calls.correlation;
