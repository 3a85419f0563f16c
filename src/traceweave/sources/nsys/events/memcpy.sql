-- Copies between and inside host and device memory.

INSERT INTO new_gpu_ops BY NAME
WITH
kinds (id, name) AS (
    VALUES (0, 'unknown'), (1, 'HtoD'), (2, 'DtoH'), (3, 'HtoA'), (4, 'AtoH'), (5, 'AtoA'), (6, 'AtoD'), (7, 'DtoA'),
        (8, 'DtoD'), (9, 'HtoH'), (10, 'PtoP'), (11, 'UVM HtoD'), (12, 'UVM DtoH'), (13, 'UVM DtoD')
),
places (id, name) AS (
    VALUES (0, 'pageable'), (1, 'pinned'), (2, 'device'), (3, 'array'), (4, 'managed'), (5, 'device static'),
        (6, 'managed static'), (7, 'unknown')
),
copies AS (
    SELECT *, coalesce(globalPid, sole_process) AS process
    FROM nsys_cupti_activity_kind_memcpy CROSS JOIN nsys_session
    WHERE nsys_timely(start) AND nsys_timely("end") AND "end" >= start
)
SELECT
    p.rank,
    c.op_id,
    'memcpy' AS kind,
    'Memcpy ' || coalesce(kinds.name, 'unknown') AS name,
    c.deviceId AS device,
    c.contextId AS context,
    c.streamId AS stream,
    c.start + c.base_ns AS start_local_ns,
    c."end" - c.start AS duration_ns,
    c.correlationId AS correlation,
    l.op_id AS launch_op_id,
    c.bytes,
    coalesce(kinds.name, c.copyKind::VARCHAR) AS copy_kind,
    nullif(c.graphNodeId, 0) AS graph_node,
    nsys_args(concat_ws(',',
        nsys_member('source', source.name),
        nsys_member('destination', destination.name),
        nsys_number('source device', c.srcDeviceId),
        nsys_number('source context', c.srcContextId),
        nsys_number('destination device', c.dstDeviceId),
        nsys_number('destination context', c.dstContextId),
        nsys_number('migration cause', nullif(c.migrationCause, 0)),
        nsys_number('copies', c.copyCount),
        nsys_number('green context', nullif(c.greenContextId, 0))
    )) AS args
FROM copies AS c
LEFT JOIN nsys_processes AS p ON c.process = p.process
LEFT JOIN nsys_launches AS l ON c.process = l.process AND c.correlationId = l.correlation
LEFT JOIN kinds ON c.copyKind = kinds.id
LEFT JOIN places AS source ON c.srcKind = source.id
LEFT JOIN places AS destination ON c.dstKind = destination.id;
