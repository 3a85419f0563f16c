-- Memory set to a value.

INSERT INTO new_gpu_ops BY NAME
WITH
sets AS (
    SELECT *, coalesce(globalPid, sole_process) AS process
    FROM nsys_cupti_activity_kind_memset CROSS JOIN nsys_session
    WHERE nsys_timely(start) AND nsys_timely("end") AND "end" >= start
)
SELECT
    p.rank,
    m.op_id,
    'memset' AS kind,
    'Memset' AS name,
    m.deviceId AS device,
    m.contextId AS context,
    m.streamId AS stream,
    m.start + m.base_ns AS start_local_ns,
    m."end" - m.start AS duration_ns,
    m.correlationId AS correlation,
    l.op_id AS launch_op_id,
    m.bytes,
    nullif(m.graphNodeId, 0) AS graph_node,
    nsys_args(concat_ws(',',
        nsys_number('value', m.value),
        nsys_number('memory kind', m.memKind),
        nsys_number('green context', nullif(m.greenContextId, 0))
    )) AS args
FROM sets AS m
LEFT JOIN nsys_processes AS p ON m.process = p.process
LEFT JOIN nsys_launches AS l ON m.process = l.process AND m.correlationId = l.correlation;
