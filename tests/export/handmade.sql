INSERT INTO base.rank_sources BY NAME
    SELECT 0 AS rank, 0 AS source_id, 'trace' AS rank_source, 'node-a' AS host, 100 AS pid,
    0 AS device, 'H100' AS gpu_name, 'nccl' AS backend, 'kineto' AS format,
    1000 AS first_local_ns, 3000 AS last_local_ns;
INSERT INTO base.gpu_ops BY NAME
    SELECT 0 AS rank, 0 AS source_id, 'kernel' AS kind, category, 'gemm' AS class, name,
    0 AS device, stream, start_local_ns, duration_ns, op_id, launch_op_id, step
    FROM (VALUES
        (1, 'a', 'compute', 7, 1000, 100, 11, 0),
        (2, 'b', 'compute', 7, 1090, 100, NULL, 0),      -- starts before a ends
        (3, 'c', 'compute', 7, 1190, 0, NULL, 1),        -- no length, where b ends
        (4, 'all <b>é', 'communication', 20, 1200, 50, NULL, 1)
    ) AS v (op_id, name, category, stream, start_local_ns, duration_ns, launch_op_id, step);
INSERT INTO base.host_ops BY NAME
    SELECT 0 AS rank, 0 AS source_id, 'runtime' AS kind, name, 100 AS pid, 100 AS tid,
    start_local_ns, duration_ns, op_id
    FROM (VALUES (11, 'cudaLaunchKernel', 900, 20), (12, 'over', 910, 30))
    AS v (op_id, name, start_local_ns, duration_ns);
INSERT INTO base.steps BY NAME
    SELECT 0 AS rank, step, 0 AS source_id, 900 + 250 * step AS start_local_ns,
    250 AS duration_ns, 'ProfilerStep' AS source FROM range(2) AS t (step);
INSERT INTO base.counters BY NAME
    SELECT 0 AS rank, 0 AS source_id, 20 + i AS op_id, 'GPU 0' AS device, 'power' AS name,
    1000 + 200 * i AS at_local_ns, 350.5 + i AS value, 'W' AS unit FROM range(2) AS t (i);
INSERT INTO base.memory_events BY NAME
    SELECT 0 AS rank, 0 AS source_id, 30 AS op_id, 'cuda:0' AS device, 'alloc' AS name,
    1100 AS at_local_ns, 512 AS value, 4096 AS total_allocated_bytes,
    NULL AS total_reserved_bytes;
