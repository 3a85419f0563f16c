-- A run worked out by hand, straight into the base tables. One step of 100 ms; rank 3 computes 10 ms longer, and the
-- last step ends with its last op (84 ms):
--
--     other ranks   compute 0───────────60   all_reduce 50────────80   copy 80-84   nothing 84-100
--     rank 3        compute 0─────────────70    all_reduce 60─────80   copy 80-84   nothing 84-100
--
-- Variables: ranks, steps (0: one round of work outside any step), collectives, gpu, kernel.

CREATE TEMP TABLE r AS SELECT CAST(range AS INTEGER) AS rank FROM range(getvariable('ranks'));

CREATE TEMP TABLE t AS
SELECT
    r.rank,
    range AS round,
    CASE WHEN getvariable('steps') > 0 THEN range END AS step,
    getvariable('t0') + range * 100_000_000 AS began,
    r.rank * 1_000_000_000::BIGINT + range * 100 AS id,
    CASE WHEN r.rank = 3 THEN 70_000_000 ELSE 60_000_000 END AS compute_ns,
    CASE WHEN r.rank = 3 THEN 60_000_000 ELSE 50_000_000 END AS arrival_ns
FROM r, range(greatest(getvariable('steps'), 1));

INSERT INTO sources
SELECT rank, format('traces/rank{}.json', rank), 'kineto', 'PyTorch Profiler', '1', 1_000_000, 500, 500, 0, 'ok', NULL
FROM r;

INSERT INTO base.rank_sources BY NAME
SELECT
    rank, rank AS source_id, 'distributedInfo' AS rank_source, 'node-a' AS host, 100 + rank AS pid, rank AS device,
    CASE WHEN getvariable('gpu') THEN 'NVIDIA H100' END AS gpu_name,
    getvariable('ranks') AS world_size,
    CASE WHEN getvariable('gpu') THEN 'nccl' ELSE 'gloo' END AS backend,
    '2.21.5' AS nccl_version, 'kineto' AS format, getvariable('t0') AS first_local_ns,
    getvariable('t0') + greatest(getvariable('steps'), 1) * 100_000_000 AS last_local_ns, 1 AS tick_ns
FROM r;

INSERT INTO base.steps BY NAME
SELECT
    rank, step, rank AS source_id, began AS start_local_ns, 100_000_000 AS duration_ns, began AS device_start_local_ns,
    CASE WHEN step = getvariable('steps') - 1 THEN began + 84_000_000 ELSE began + 100_000_000 END AS device_end_local_ns,
    'ProfilerStep' AS source
FROM t WHERE step IS NOT NULL;

-- with a GPU the host launches a step's kernel as it starts; without one it does the work itself
INSERT INTO base.host_ops
    (rank, op_id, source_id, kind, name, pid, tid, start_local_ns, duration_ns, depth, step, correlation)
SELECT
    rank, id + 1, rank, 'op', getvariable('kernel'), 100 + rank, 1, began,
    CASE WHEN getvariable('gpu') THEN 1_000_000 ELSE compute_ns END,
    0, step, NULL
FROM t;

INSERT INTO base.host_ops
    (rank, op_id, source_id, kind, name, pid, tid, start_local_ns, duration_ns, depth, step, correlation)
SELECT rank, id + 2, rank, 'runtime', 'cudaLaunchKernel', 100 + rank, 1, began - 5_000, 5_000, 0, step, id
FROM t WHERE getvariable('gpu');

INSERT INTO base.host_ops
    (rank, op_id, source_id, kind, name, pid, tid, start_local_ns, duration_ns, depth, step, correlation)
SELECT
    rank, id + 3, rank, 'op', 'c10d::allreduce_', 100 + rank, 1,
    began + arrival_ns, 80_000_000 - arrival_ns, 0, step, NULL
FROM t WHERE getvariable('collectives');

INSERT INTO base.gpu_ops BY NAME
SELECT
    rank, id + 11 AS op_id, rank AS source_id, 'kernel' AS kind, 'compute' AS category, 'gemm' AS class,
    getvariable('kernel') AS name, rank AS device, 0 AS context, 7 AS stream,
    began AS start_local_ns, compute_ns AS duration_ns, step, id AS correlation, id + 2 AS launch_op_id,
    began - 5_000 AS launch_start_local_ns, 5_000 AS launch_duration_ns, 100 + rank AS launch_pid, 1 AS launch_tid,
    'cudaLaunchKernel' AS launch_call
FROM t WHERE getvariable('gpu');

INSERT INTO base.gpu_ops BY NAME
SELECT
    rank, id + 12 AS op_id, rank AS source_id, 'kernel' AS kind, 'communication' AS category, 'collective' AS class,
    'ncclDevKernel_AllReduce' AS name, rank AS device, 0 AS context, 20 AS stream,
    began + arrival_ns AS start_local_ns, 80_000_000 - arrival_ns AS duration_ns, step
FROM t WHERE getvariable('gpu') AND getvariable('collectives');

INSERT INTO base.gpu_ops BY NAME
SELECT
    rank, id + 13 AS op_id, rank AS source_id, 'memcpy' AS kind, 'memory' AS category, 'copy' AS class,
    'Memcpy DtoH' AS name, rank AS device, 0 AS context, 7 AS stream,
    began + 80_000_000 AS start_local_ns, 4_000_000 AS duration_ns, step, 4_096 AS bytes, 'DtoH' AS copy_kind
FROM t WHERE getvariable('gpu');

INSERT INTO groups BY NAME
SELECT
    1 AS group_id, '0' AS name, 'default_pg' AS description, getvariable('ranks') AS size,
    (SELECT list(rank ORDER BY rank) FROM r) AS ranks, 'world' AS role, 'size' AS role_source
WHERE getvariable('collectives');

INSERT INTO base.collective_calls BY NAME
SELECT
    id + 3 AS call_id, rank, rank AS source_id, CASE WHEN getvariable('gpu') THEN id + 12 END AS gpu_op_id, id + 3 AS host_op_id,
    'all_reduce' AS op, '0' AS group_name, 'default_pg' AS group_desc, (SELECT list(rank ORDER BY rank) FROM r) AS group_ranks,
    getvariable('ranks') AS group_size, round AS seq, 'float' AS dtype, 64_000_000 AS bytes, 20 AS stream,
    began + arrival_ns AS start_local_ns, 80_000_000 - arrival_ns AS duration_ns, step, 'metadata' AS evidence
FROM t WHERE getvariable('collectives');

INSERT INTO base.matches SELECT id + 3, 1, round, 'seq' FROM t WHERE getvariable('collectives');

INSERT INTO clocks
SELECT rank, NULL, 0, rank * 100, 0, getvariable('t0'), 20_000, 2_000, 5_000, 3, 'collective ends', 'aligned'
FROM r WHERE getvariable('collectives');

DROP TABLE t;
DROP TABLE r;
