-- relation: gpu_ops | one row per kernel, copy or memset on a GPU
-- column: rank INTEGER | global rank
-- column: op_id BIGINT | unique in this database
-- column: kind VARCHAR | 'kernel', 'memcpy' or 'memset'
-- column: category VARCHAR | 'compute', 'communication' or 'memory'
-- column: class VARCHAR | kind of work: gemm, attention, conv, norm, softmax, elementwise, reduction, embedding, optimizer, loss, copy, memset, indexing, sort_scan, random, moe, quantization, fft, triton (fused pointwise work), collective, p2p, other
-- column: class_source VARCHAR | what decided the class of a kernel: 'operator' (the one that launched it), else 'name'; NULL for copies and memsets
-- column: name VARCHAR | kernel name, or the profiler's name of the copy
-- column: device INTEGER | device number inside the process
-- column: stream BIGINT | CUDA or HIP stream
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length as the profiler measured it
-- column: start_local_ns BIGINT | start, rank's own clock
-- column: step BIGINT | step in which it was launched; NULL if it was launched outside any, and if the launch was not recorded (launch_op_id is NULL too)
-- column: correlation BIGINT | the profiler's link to the launching call
-- column: launch_op_id BIGINT | host_ops.op_id of the launching call; NULL if not recorded
-- column: bytes BIGINT | bytes copied or set
-- column: copy_kind VARCHAR | 'HtoD', 'DtoH', 'DtoD', 'PtoP' ...; NULL for kernels
-- column: collective_id BIGINT | the collective instance that this kernel executes; NULL if none or not matched
-- column: graph_node BIGINT | CUDA graph node; NULL if launched directly
-- column: context BIGINT | CUDA context
-- column: source_id INTEGER | file it comes from
-- column: args JSON | all other fields of the event in the trace
-- column: launch_start_ns BIGINT | start of the launching call, common clock; this and what follows: NULL if it is not recorded
-- column: launch_end_ns BIGINT | end of the launching call, common clock
-- column: launch_duration_ns BIGINT | length of the launching call
-- column: launch_start_local_ns BIGINT | start of the launching call, rank's own clock
-- column: launch_pid BIGINT | process that launched it
-- column: launch_tid BIGINT | thread that launched it
-- column: launch_call VARCHAR | name of the launching call
CREATE VIEW gpu_ops AS
SELECT
    o.rank, o.op_id, o.kind, o.category, o.class, o.class_source, o.name, o.device, o.stream,
    base.align_by(o.start_local_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS start_ns,
    base.align_by(o.start_local_ns + o.duration_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS end_ns,
    o.duration_ns, o.start_local_ns, o.step, o.correlation, o.launch_op_id, o.bytes, o.copy_kind, m.collective_id,
    o.graph_node, o.context, o.source_id, o.args,
    base.align_by(o.launch_start_local_ns, o.launch_start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS launch_start_ns,
    base.align_by(o.launch_start_local_ns + o.launch_duration_ns, o.launch_start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces)
        AS launch_end_ns,
    o.launch_duration_ns, o.launch_start_local_ns, o.launch_pid, o.launch_tid, o.launch_call
FROM base.gpu_ops AS o
LEFT JOIN base.rank_clocks AS c ON c.rank = o.rank
LEFT JOIN (
    SELECT calls.op_id, min(matches.collective_id) AS collective_id
    FROM (
        SELECT gpu_op_id AS op_id, call_id FROM base.collective_calls WHERE gpu_op_id IS NOT NULL
        UNION ALL
        SELECT receive_op_id AS op_id, call_id FROM base.collective_calls WHERE receive_op_id IS NOT NULL
    ) AS calls
    JOIN base.matches USING (call_id)
    GROUP BY calls.op_id
) AS m ON m.op_id = o.op_id
WHERE o.rank IS NOT NULL;

-- relation: host_ops | one row per operator, annotation, API call or range on the host
-- column: rank INTEGER | global rank; NULL for a process that is not a rank
-- column: op_id BIGINT | unique in this database
-- column: kind VARCHAR | 'op', 'annotation', 'python', 'runtime', 'driver', 'nvtx', 'os' or 'mpi'
-- column: name VARCHAR | as the profiler wrote it
-- column: pid BIGINT | process id
-- column: tid BIGINT | thread id
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length as the profiler measured it
-- column: depth INTEGER | how many ranges of the same thread are open around it
-- column: parent_id BIGINT | op_id of the innermost of them; NULL at the top
-- column: step BIGINT | step in which it started; NULL outside any step
-- column: correlation BIGINT | link to the GPU work it launched
-- column: sequence BIGINT | autograd sequence number, the same forward and backward
-- column: arguments_hash BIGINT | the same for calls of an operator with the same shapes, types and values of arguments; NULL if none were recorded (record_shapes)
-- column: start_local_ns BIGINT | start, rank's own clock
-- column: source_id INTEGER | file it comes from
-- column: args JSON | all other fields of the event in the trace
CREATE VIEW host_ops AS
SELECT
    o.rank, o.op_id, o.kind, o.name, o.pid, o.tid,
    base.align_by(o.start_local_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS start_ns,
    base.align_by(o.start_local_ns + o.duration_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces) AS end_ns,
    o.duration_ns, o.depth, o.parent_id, o.step, o.correlation, o.sequence, o.arguments_hash, o.start_local_ns,
    o.source_id, o.args
FROM base.host_ops AS o
LEFT JOIN base.rank_clocks AS c ON c.rank = o.rank;
