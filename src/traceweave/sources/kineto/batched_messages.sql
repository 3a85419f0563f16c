-- The kernel of a group call (`batch_isend_irecv`) says nothing, and is launched when the group ends: behind each of its sends and
-- receives, which say who the peer is. One row of communication_kernels each, instead of one for the kernel.
-- What lies between the end of such a message and the thread's next launch of a kernel is of that kernel; a message outside of a group
-- launches its own. A kernel is left as it is if the peer of any of its messages would stay open.
-- Input: communication_kernels, new_host_ops, host_names.

CREATE OR REPLACE TEMP TABLE communication_kernels AS
WITH launches AS (
    SELECT rank, op_id, tid, start_local_ns
    FROM new_host_ops
    SEMI JOIN (FROM host_names WHERE kind IN ('runtime', 'driver') AND {{ names('launching', 'name') }} = 'kernel') AS n USING (kind, name)
),
messages AS (
    SELECT
        rank, op_id, tid, start_local_ns, start_local_ns + duration_ns AS end_local_ns, args,
        collective_keys(args) AS keys
    FROM new_host_ops WHERE name = 'record_param_comms' AND is_message(args)
),
grouped AS (
    SELECT m.*
    FROM messages AS m
    ASOF LEFT JOIN launches AS l ON m.rank = l.rank AND m.tid = l.tid AND m.end_local_ns >= l.start_local_ns
    WHERE l.start_local_ns IS NULL OR l.start_local_ns < m.start_local_ns
),
parts AS (
    SELECT l.op_id AS launch_op_id, g.op_id AS message_id, g.args, g.keys
    FROM grouped AS g
    ASOF JOIN launches AS l ON g.rank = l.rank AND g.tid = l.tid AND g.end_local_ns <= l.start_local_ns
    QUALIFY bool_and(g.keys."Group size" = '2' OR coalesce(g.keys."Dst Rank", g.keys."Src Rank") IS NOT NULL) OVER (PARTITION BY l.op_id)
),
open_kernels AS (
    SELECT * FROM communication_kernels WHERE keys IS NULL AND collective_op(coalesce(announced, name)) = 'unknown'
),
told AS (
    SELECT k.rank, k.stream, k.op_id, p.message_id, p.args, p.keys
    FROM open_kernels AS k JOIN parts AS p USING (launch_op_id)
),
-- on a stream all of whose kernels, eight or more, do the same, so does one that was launched before the window
streams AS (
    SELECT rank, stream, min(op_id) AS op_id
    FROM (
        SELECT k.rank, k.stream, k.op_id, list(struct_update(t.keys, Seq := NULL::VARCHAR, "Comms Id" := NULL::VARCHAR) ORDER BY t.message_id) FILTER (t.op_id IS NOT NULL) AS does
        FROM communication_kernels AS k LEFT JOIN told AS t USING (op_id)
        WHERE k.keys IS NOT NULL OR k.launch_op_id IS NOT NULL
        GROUP BY ALL
    )
    GROUP BY rank, stream
    HAVING count(does) = count(*) AND count(*) >= 8 AND count(DISTINCT does) = 1
),
supposed AS (
    SELECT k.op_id, t.args, struct_update(t.keys, Seq := NULL::VARCHAR, "Comms Id" := NULL::VARCHAR) AS keys
    FROM open_kernels AS k
    JOIN streams AS s USING (rank, stream)
    JOIN told AS t ON t.op_id = s.op_id
    WHERE k.launch_op_id IS NULL
),
found AS (FROM told SELECT op_id, message_id, args, keys UNION ALL BY NAME FROM supposed)
SELECT
    k.* REPLACE (
        coalesce(f.message_id, k.issuer_id) AS issuer_id,
        coalesce(f.keys, k.keys) AS keys,
        coalesce(f.args, k.issuer_args) AS issuer_args
    )
FROM communication_kernels AS k LEFT JOIN found AS f USING (op_id);
