-- The ranks of one collective, in the order of their arrival. wait_ns: until the last one came.
SELECT
    rank,
    coalesce(gpu_op_id, host_op_id) AS id,
    start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns,
    duration_ns,
    max(start_ns) OVER () - start_ns AS wait_ns
FROM collectives
WHERE collective_id = $collective
ORDER BY start_ns, rank
