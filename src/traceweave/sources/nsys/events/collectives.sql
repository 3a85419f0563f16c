-- Collectives: kernels that communicate, told apart by the NCCL range that launched them where there is one.
--
-- A kernel's launch lies inside the range of the call (ncclAllReduce), or, for grouped calls, inside the outermost
-- ncclGroupEnd: one kernel then does the work of all calls of the group.

CREATE OR REPLACE TEMP TABLE nsys_comm_kernels AS
WITH
kernels AS (
    SELECT g.rank, g.op_id, g.launch_op_id, g.name, g.stream, g.start_local_ns, g.duration_ns, l.thread, l.start AS launched
    FROM new_gpu_ops AS g
    JOIN classified AS c ON g.kind = c.kind AND g.name = c.name AND c.category = 'communication'
    LEFT JOIN nsys_launches AS l ON g.launch_op_id = l.op_id
    WHERE g.rank IS NOT NULL
),
launchers AS (
    SELECT op_id, thread, start, "end" FROM nsys_nccl_levels WHERE closes
    UNION
    SELECT r.op_id, r.thread, r.start, r."end"
    FROM nsys_nccl_ranges AS r JOIN nsys_nccl_calls AS c ON r.op_id = c.op_id AND c.launcher = c.op_id
),
-- PyTorch's own range around the call (nccl:all_to_all) tells what a group of sends and receives amounts to
torch_ranges AS (
    SELECT h.op_id, n.thread, n.start, n."end", collective_op(h.name) AS op
    FROM new_host_ops AS h JOIN nsys_comm_ranges AS n ON h.op_id = n.op_id
    WHERE starts_with(h.name, 'nccl:') AND n."end" IS NOT NULL
),
located AS (
    SELECT k.*, CASE WHEN k.launched <= u."end" THEN u.op_id END AS launcher
    FROM kernels AS k ASOF LEFT JOIN launchers AS u ON k.thread = u.thread AND k.launched >= u.start
)
SELECT
    k.* EXCLUDE (thread, launched),
    CASE WHEN k.launched <= t."end" THEN t.op END AS torch_op,
    CASE WHEN k.launched <= t."end" THEN t.op_id END AS torch_op_id,
    row_number() OVER (PARTITION BY k.launcher ORDER BY k.start_local_ns, k.op_id) AS nth,
    count(*) OVER (PARTITION BY k.launcher) AS kernels
FROM located AS k ASOF LEFT JOIN torch_ranges AS t ON k.thread = t.thread AND k.launched >= t.start;

-- What each launcher launches: its calls; point-to-point calls without known peers only as a whole.
CREATE OR REPLACE TEMP TABLE nsys_launched_calls AS
WITH
launchers AS (
    SELECT
        c.launcher,
        bool_and(c.op IN ('send', 'recv')) AS point_to_point,
        bool_and(c.peer IS NOT NULL) AS peers_known,
        any_value(k.torch_op) AS torch_op
    FROM nsys_nccl_calls AS c
    LEFT JOIN nsys_comm_kernels AS k ON c.launcher = k.launcher
    GROUP BY c.launcher
),
judged AS (
    SELECT
        *,
        point_to_point AND torch_op NOT IN ('send', 'recv', 'unknown') AS is_torch_op,
        point_to_point AND NOT peers_known AS opaque
    FROM launchers
)
SELECT c.launcher, c.op_id, c.start, c.op, c.comm, c.bytes, c.dtype, c.comm_rank, c.peer, FALSE AS whole_buffer
FROM nsys_nccl_calls AS c
JOIN judged AS j ON c.launcher = j.launcher
WHERE NOT coalesce(j.is_torch_op, FALSE) AND NOT j.opaque
UNION ALL
SELECT
    c.launcher,
    min(c.op_id),
    min(c.start),
    CASE
        WHEN any_value(j.is_torch_op) THEN any_value(j.torch_op)
        WHEN bool_and(c.op = 'send') THEN 'send'
        WHEN bool_and(c.op = 'recv') THEN 'recv'
        ELSE 'unknown'
    END,
    CASE WHEN count(DISTINCT c.comm) = 1 THEN any_value(c.comm) END,
    -- what this rank sends in all, its own part included, is the whole buffer of an all-to-all
    CASE WHEN bool_and(c.bytes IS NOT NULL) THEN
        CASE WHEN bool_and(c.op = 'recv') THEN sum(c.bytes) ELSE sum(c.bytes) FILTER (c.op = 'send') END
    END::BIGINT,
    CASE WHEN count(DISTINCT c.dtype) = 1 THEN any_value(c.dtype) END,
    any_value(c.comm_rank),
    NULL,
    TRUE
FROM nsys_nccl_calls AS c
JOIN judged AS j ON c.launcher = j.launcher
WHERE coalesce(j.is_torch_op, FALSE) OR j.opaque
GROUP BY c.launcher;

INSERT INTO new_collective_calls BY NAME
WITH
calls AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY launcher ORDER BY start, op_id) AS nth,
        count(*) OVER (PARTITION BY launcher) AS calls
    FROM nsys_launched_calls
),
sizes AS (SELECT comm, max(size) AS size FROM nsys_communicators GROUP BY comm),
members AS (SELECT comm, comm_rank, any_value(rank) AS rank FROM nsys_communicators GROUP BY ALL),
-- a communicator that one process has twice (a GPU per thread) does not number it
own AS (SELECT comm, rank, min(comm_rank) AS comm_rank FROM nsys_communicators GROUP BY ALL HAVING count(DISTINCT comm_rank) = 1),
-- kernels and calls of one launcher are paired in order; more calls than kernels means fused calls
attached AS (
    SELECT k.*, c.op_id AS host_op_id, c.op, c.comm, c.bytes AS call_bytes, c.dtype, c.comm_rank, c.peer AS comm_peer, c.whole_buffer
    FROM nsys_comm_kernels AS k
    LEFT JOIN calls AS c
        ON k.launcher = c.launcher AND k.nth = CASE
            WHEN c.calls > k.kernels THEN (c.nth - 1) * k.kernels // c.calls + 1
            ELSE c.nth
        END
)
SELECT
    a.rank,
    a.op_id AS gpu_op_id,
    coalesce(a.host_op_id, a.launcher, a.torch_op_id, a.launch_op_id) AS host_op_id,
    coalesce(a.op, nullif(a.torch_op, 'unknown'), collective_op(a.name)) AS op,
    s.size AS group_size,
    CASE WHEN a.comm IS NOT NULL THEN '0x' || lower(to_hex(try_cast(a.comm AS UBIGINT))) END AS comm_id,
    coalesce(own.comm_rank, a.comm_rank) AS comm_rank,
    a.comm_peer,
    a.dtype,
    -- NCCL counts these per rank; bytes here is the whole buffer
    CASE
        WHEN a.op IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter') AND NOT a.whole_buffer
            THEN a.call_bytes * s.size
        ELSE a.call_bytes
    END AS bytes,
    -- NCCL numbers peers inside the communicator, whose other ranks may be in other files: then weave finds out
    coalesce(m.rank, CASE WHEN s.size = nsys_world_size() THEN a.comm_peer END) AS peer,
    a.stream,
    a.start_local_ns,
    a.duration_ns,
    CASE WHEN a.host_op_id IS NOT NULL OR a.torch_op <> 'unknown' THEN 'nvtx' ELSE 'name' END AS evidence
FROM attached AS a
LEFT JOIN sizes AS s ON a.comm = s.comm
LEFT JOIN members AS m ON a.comm = m.comm AND a.comm_peer = m.comm_rank
LEFT JOIN own ON a.comm = own.comm AND a.rank = own.rank;
