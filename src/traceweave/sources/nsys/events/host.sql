-- What threads did: CUDA calls, OS calls, MPI calls.

INSERT INTO new_host_ops BY NAME
WITH
calls AS (
    SELECT r.*, s.base_ns, coalesce(n.value, 'unnamed CUDA call') AS full_name
    FROM nsys_cupti_activity_kind_runtime AS r
    CROSS JOIN nsys_session AS s
    LEFT JOIN nsys_strings AS n ON r.nameId = n.id
    WHERE coalesce(eventClass, 0) IN (0, 1)
        AND nsys_timely(start) AND nsys_timely("end") AND "end" >= start
),
named AS (
    -- cudaLaunchKernel_v7000, cudaMemcpyAsync_ptsz_v7000: the version of the ABI, not part of the name;
    -- cuMemcpyHtoD_v2: part of the name
    SELECT *, regexp_replace(full_name, '(_ptsz|_ptds)?_v\d{4,}$', '') AS name FROM calls
)
SELECT
    p.rank,
    c.op_id,
    CASE WHEN c.eventClass = 1 THEN 'driver' ELSE 'runtime' END AS kind,
    c.name,
    nsys_pid(c.globalTid) AS pid,
    nsys_tid(c.globalTid) AS tid,
    c.start + c.base_ns AS start_local_ns,
    c."end" - c.start AS duration_ns,
    -1 AS nesting,
    c.correlationId AS correlation,
    nsys_args([
        nsys_member('full name', CASE WHEN c.full_name <> c.name THEN c.full_name END),
        nsys_member('return value', nullif(c.returnValue, 0)),
        nsys_member('callchain', c.callchainId)
    ]) AS args
FROM named AS c
LEFT JOIN nsys_processes AS p ON nsys_process(c.globalTid) = p.process;

INSERT INTO base.other_events BY NAME
SELECT
    p.rank,
    r.op_id,
    s.source_id,
    'X' AS phase,
    CASE WHEN r.eventClass = 67 THEN 'cuda_backtrace' ELSE 'cuda_call_class_' || r.eventClass END AS category,
    n.value AS name,
    nsys_pid(r.globalTid)::VARCHAR AS pid,
    nsys_tid(r.globalTid)::VARCHAR AS tid,
    r.start + s.base_ns AS start_local_ns,
    r."end" - r.start AS duration_ns,
    nsys_args([
        nsys_member('correlation', r.correlationId), nsys_member('callchain', r.callchainId)
    ]) AS args
FROM nsys_cupti_activity_kind_runtime AS r
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_strings AS n ON r.nameId = n.id
LEFT JOIN nsys_processes AS p ON nsys_process(r.globalTid) = p.process
WHERE coalesce(r.eventClass, 0) NOT IN (0, 1)
    AND nsys_timely(r.start) AND nsys_timely(r."end") AND r."end" >= r.start;

INSERT INTO new_host_ops BY NAME
SELECT
    p.rank,
    o.op_id,
    'os' AS kind,
    coalesce(n.value, 'unnamed OS call') AS name,
    nsys_pid(o.globalTid) AS pid,
    nsys_tid(o.globalTid) AS tid,
    o.start + s.base_ns AS start_local_ns,
    o."end" - o.start AS duration_ns,
    -2 AS nesting,
    nsys_args([
        nsys_member('return value', o.returnValue), nsys_member('nesting level', o.nestingLevel)
    ]) AS args
FROM nsys_osrt_api AS o
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_strings AS n ON o.nameId = n.id
LEFT JOIN nsys_processes AS p ON nsys_process(o.globalTid) = p.process
WHERE nsys_timely(o.start) AND nsys_timely(o."end") AND o."end" >= o.start;

INSERT INTO new_host_ops BY NAME
WITH
calls AS (
    SELECT * FROM nsys_mpi_collectives_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_p2p_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_start_wait_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_other_events
)
SELECT
    p.rank,
    c.op_id,
    'mpi' AS kind,
    coalesce(n.value, 'unnamed MPI call') AS name,
    nsys_pid(c.globalTid) AS pid,
    nsys_tid(c.globalTid) AS tid,
    c.start + s.base_ns AS start_local_ns,
    coalesce(c."end", s.end_ns) - c.start AS duration_ns,
    -3 AS nesting,
    nsys_args([
        nsys_member('size', c.size),
        nsys_member('receive size', c.recvSize),
        nsys_member('root rank', c.rootRank),
        nsys_member('remote rank', c.remoteRank),
        nsys_member('tag', c.tag),
        nsys_member('communicator', c.commHandle),
        nsys_member('communicator uid', c.commUid),
        nsys_member('request', c.requestHandle),
        nsys_member('open', CASE WHEN c."end" IS NULL THEN TRUE END)
    ]) AS args
FROM calls AS c
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_strings AS n ON c.textId = n.id
LEFT JOIN nsys_processes AS p ON nsys_process(c.globalTid) = p.process
WHERE nsys_timely(c.start) AND nsys_timely(coalesce(c."end", s.end_ns))
    AND coalesce(c."end", s.end_ns) >= c.start;
