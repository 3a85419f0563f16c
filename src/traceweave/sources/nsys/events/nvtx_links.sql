-- What follows from the names of NVTX ranges: calls of MPI, and arrows from forward to backward operators.

-- MPI's collectives and messages as nsys before 2023 keeps them: NVTX ranges of a domain 'MPI', which tell a call's name and
-- nothing else. They stay ranges, as `nsys stats` counts them. Calls that only start an operation have no end that is known.

INSERT INTO new_collective_calls BY NAME
SELECT rank, op_id AS host_op_id, collective_op(name) AS op, tid AS stream, start_local_ns, duration_ns, 'host op' AS evidence
FROM new_host_ops
WHERE kind = 'nvtx' AND starts_with(name, 'MPI_') AND args->>'domain' = 'MPI' AND rank IS NOT NULL
    AND collective_op(name) <> 'unknown' AND NOT regexp_matches(name, '^MPI_I[a-z]|_(init|local)$')
    -- where nsys has tables of MPI, ranges are a program's own
    AND NOT EXISTS (FROM new_host_ops WHERE kind = 'mpi');

-- Arrows from forward to backward operators, as Kineto draws them. emit_nvtx writes `AddmmBackward0, seq = 596` around a
-- backward node and `aten::addmm, seq = 596` around the operator that made it. The counter moves on when a node is made,
-- so of all operators with a number the last one to start made the node (torch/csrc/profiler/collection.cpp). A graph
-- that is run backward twice is linked once.

INSERT INTO base.flows BY NAME
WITH
numbered AS (
    SELECT rank, op_id, pid, tid, start_local_ns AS start_ns, sequence, regexp_matches(name, '[Bb]ackward\d*$') AS is_backward
    FROM new_host_ops
    WHERE kind = 'nvtx' AND sequence IS NOT NULL AND rank IS NOT NULL
),
backward AS (
    SELECT rank, pid, tid, sequence, arg_min(op_id, (start_ns, op_id)) AS op_id, min(start_ns) AS start_ns
    FROM numbered WHERE is_backward
    GROUP BY ALL
)
SELECT b.rank, source_of(b.op_id) AS source_id, 'fwdbwd' AS kind, f.op_id AS from_op_id, b.op_id AS to_op_id
FROM backward AS b
ASOF JOIN (FROM numbered WHERE NOT is_backward) AS f
    ON b.rank = f.rank AND b.pid = f.pid AND b.sequence = f.sequence AND b.start_ns > f.start_ns;
