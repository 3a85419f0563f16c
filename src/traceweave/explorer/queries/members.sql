-- The ranks of one collective, in the order of their arrival. wait_ns: until the last one came; 0 of a buffered message.
SELECT
    k.rank,
    coalesce(k.gpu_op_id, k.host_op_id) AS id,
    k.start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns,
    k.duration_ns,
    CASE WHEN i.is_buffered THEN 0 ELSE i.last_start_ns - k.start_ns END AS wait_ns
FROM collectives AS k JOIN collective_instances AS i USING (collective_id)
WHERE k.collective_id = $collective
ORDER BY k.start_ns, k.rank
