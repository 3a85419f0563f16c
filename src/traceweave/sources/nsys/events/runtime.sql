-- CUDA calls.

-- Calls are many, names are few. cudaLaunchKernel_v7000, cudaMemcpyAsync_ptsz_v7000: the version of the ABI, not part of
-- the name; cuMemcpyHtoD_v2: part of the name.
CREATE OR REPLACE TEMP TABLE nsys_call_names AS
WITH named AS (
    SELECT id, value AS full_name, regexp_replace(value, '(_ptsz|_ptds)?_v\d{4,}$', '') AS name
    FROM nsys_strings SEMI JOIN nsys_cupti_activity_kind_runtime ON id = nameId
)
SELECT id, name, CASE WHEN full_name <> name THEN nsys_member('full name', full_name) END AS full_name FROM named;

INSERT INTO new_host_ops BY NAME
SELECT
    c.rank,
    c.op_id,
    CASE WHEN c.eventClass = 1 THEN 'driver' ELSE 'runtime' END AS kind,
    coalesce(n.name, 'unnamed CUDA call') AS name,
    c.pid,
    c.tid,
    c.start_local_ns,
    c.duration_ns,
    -1 AS nesting,
    c.correlationId AS correlation,
    nsys_args(concat_ws(',',
        n.full_name,
        nsys_number('return value', nullif(c.returnValue, 0)),
        nsys_number('callchain', c.callchainId)
    )) AS args
FROM nsys_cupti_activity_kind_runtime AS c
LEFT JOIN nsys_call_names AS n ON c.nameId = n.id
WHERE coalesce(c.eventClass, 0) IN (0, 1);

INSERT INTO base.other_events BY NAME
SELECT
    r.rank,
    r.op_id,
    r.source_id,
    'X' AS phase,
    CASE WHEN r.eventClass = 67 THEN 'cuda_backtrace' ELSE 'cuda_call_class_' || r.eventClass END AS category,
    n.value AS name,
    r.pid::VARCHAR AS pid,
    r.tid::VARCHAR AS tid,
    r.start_local_ns,
    r.duration_ns,
    nsys_args(concat_ws(',', nsys_number('correlation', r.correlationId), nsys_number('callchain', r.callchainId))) AS args
FROM nsys_cupti_activity_kind_runtime AS r
LEFT JOIN nsys_strings AS n ON r.nameId = n.id
WHERE coalesce(r.eventClass, 0) NOT IN (0, 1);
