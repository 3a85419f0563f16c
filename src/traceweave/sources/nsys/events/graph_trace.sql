-- With --cuda-graph-trace=graph a launched graph is one span; its kernels have no rows of their own.
INSERT INTO new_gpu_ops BY NAME
SELECT
    g.rank,
    g.op_id,
    'kernel' AS kind,
    'CUDA graph' AS name,
    g.deviceId AS device,
    g.contextId AS context,
    g.streamId AS stream,
    g.start_local_ns,
    g.duration_ns,
    g.correlationId AS correlation,
    l.op_id AS launch_op_id,
    nsys_args(concat_ws(',',
        nsys_number('graph id', g.graphId),
        nsys_number('graph exec id', g.graphExecId),
        nsys_number('green context', nullif(g.greenContextId, 0))
    )) AS args
FROM nsys_cupti_activity_kind_graph_trace AS g LEFT JOIN nsys_launches AS l USING (process, correlationId);
