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
SELECT b.rank, s.source_id, 'fwdbwd' AS kind, f.op_id AS from_op_id, b.op_id AS to_op_id
FROM backward AS b
CROSS JOIN nsys_session AS s
ASOF JOIN (FROM numbered WHERE NOT is_backward) AS f
    ON b.rank = f.rank AND b.pid = f.pid AND b.sequence = f.sequence AND b.start_ns > f.start_ns;
