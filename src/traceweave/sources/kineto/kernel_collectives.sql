-- Communication kernels -> new_collective_calls. What a kernel does not say itself (torch < 2.2, kernels of a group call) is
-- taken from the host operations around its launch: `record_param_comms` carries the same keys, the `nccl:...` annotation
-- inside it the tensor's shape and type.
-- Input: new_gpu_ops with launch_op_id, new_host_ops, new_groups (pg_config of the file), only_groups, new_source.

CREATE OR REPLACE TEMP MACRO collective_keys(args) AS json_transform(args, '{
    "Collective name": "VARCHAR", "In msg nelems": "VARCHAR", "Out msg nelems": "VARCHAR", "Group size": "VARCHAR", "dtype": "VARCHAR",
    "Process Group Name": "VARCHAR", "Process Group Description": "VARCHAR", "Process Group Ranks": "VARCHAR", "Seq": "VARCHAR",
    "Dst Rank": "VARCHAR", "Src Rank": "VARCHAR", "In msg size": "VARCHAR", "Out msg size": "VARCHAR"
}');

CREATE OR REPLACE TEMP TABLE communication_kernels AS
WITH kernels AS (
    SELECT source_of(g.op_id) AS source_id, g.op_id, g.name, g.stream, g.start_local_ns, g.duration_ns, g.args, l.tid, l.start_local_ns AS launched_ns
    FROM new_gpu_ops AS g
    JOIN classified AS c USING (kind, name)
    LEFT JOIN new_host_ops AS l ON l.op_id = g.launch_op_id
    WHERE c.category = 'communication'
),
issuers AS (
    SELECT source_of(op_id) AS source_id, op_id, tid, start_local_ns, start_local_ns + duration_ns AS end_local_ns, args
    FROM new_host_ops WHERE name = 'record_param_comms'
),
announcements AS (
    SELECT source_of(op_id) AS source_id, op_id, name, tid, start_local_ns, start_local_ns + duration_ns AS end_local_ns, args
    FROM new_host_ops WHERE kind = 'annotation' AND collective_range(name) IN ('device', 'host')
)
SELECT
    k.source_id, k.op_id, k.name, k.stream, k.start_local_ns, k.duration_ns,
    CASE WHEN k.launched_ns <= i.end_local_ns THEN i.op_id END AS issuer_id,
    CASE WHEN k.launched_ns <= n.end_local_ns THEN n.name END AS announced,
    CASE WHEN k.launched_ns <= n.end_local_ns THEN n.args END AS announced_args,
    CASE WHEN json_exists(k.args, '$."Collective name"') OR json_exists(k.args, '$."In msg size"') THEN collective_keys(k.args)
         WHEN k.launched_ns <= i.end_local_ns THEN collective_keys(i.args) END AS keys,
    CASE WHEN k.launched_ns <= i.end_local_ns THEN i.args END AS issuer_args
FROM kernels AS k
ASOF LEFT JOIN issuers AS i ON k.source_id = i.source_id AND k.tid = i.tid AND k.launched_ns >= i.start_local_ns
ASOF LEFT JOIN announcements AS n ON k.source_id = n.source_id AND k.tid = n.tid AND k.launched_ns >= n.start_local_ns;

INSERT INTO new_collective_calls BY NAME
WITH named AS (
    SELECT
        communication_kernels.*,
        collective_op(coalesce(keys."Collective name", announced, communication_kernels.name)) AS op,
        coalesce(keys."Process Group Name", only_group.name) AS group_name,
        TRY_CAST(keys."Group size" AS INTEGER) AS group_size,
        coalesce(keys.dtype, json_extract_string(announced_args, '$."Input type"[0]')) AS dtype,
        greatest(TRY_CAST(keys."In msg nelems" AS BIGINT), TRY_CAST(keys."Out msg nelems" AS BIGINT)) AS elements,
        greatest(TRY_CAST(keys."In msg size" AS BIGINT), TRY_CAST(keys."Out msg size" AS BIGINT)) AS message_bytes
    FROM communication_kernels
    LEFT JOIN only_groups AS only_group ON communication_kernels.source_id = only_group.source_id
)
SELECT
    s.rank,
    k.op_id AS gpu_op_id,
    k.issuer_id AS host_op_id,
    k.op,
    k.group_name,
    coalesce(k.keys."Process Group Description", g.description) AS group_desc,
    coalesce(g.ranks, TRY_CAST(k.keys."Process Group Ranks" AS INTEGER[])) AS group_ranks,
    coalesce(g.size, k.group_size, len(TRY_CAST(k.keys."Process Group Ranks" AS INTEGER[]))) AS group_size,
    NULL AS comm_id,
    CASE WHEN TRY_CAST(k.keys.Seq AS BIGINT) >= 0 THEN TRY_CAST(k.keys.Seq AS BIGINT) END AS seq,
    k.dtype,
    CASE
        WHEN k.message_bytes IS NOT NULL THEN k.message_bytes
        WHEN k.elements IS NOT NULL THEN TRY_CAST(CAST(k.elements AS HUGEINT) * dtype_bytes(k.dtype) AS BIGINT)
        WHEN k.op = 'all_gather' THEN
            TRY_CAST(CAST(first_tensor_elements(k.announced_args) AS HUGEINT) * dtype_bytes(k.dtype) * coalesce(g.size, k.group_size, s.world_size) AS BIGINT)
        ELSE TRY_CAST(CAST(coalesce(first_tensor_elements(k.announced_args), first_tensor_elements(k.issuer_args)) AS HUGEINT) * dtype_bytes(k.dtype) AS BIGINT)
    END AS bytes,
    TRY_CAST(coalesce(CASE WHEN k.op = 'send' THEN k.keys."Dst Rank" END, CASE WHEN k.op = 'recv' THEN k.keys."Src Rank" END) AS INTEGER) AS peer,
    k.stream,
    k.start_local_ns,
    k.duration_ns,
    CASE WHEN k.keys."Collective name" IS NOT NULL THEN 'metadata' WHEN k.announced IS NOT NULL THEN 'host op' ELSE 'name' END AS evidence
FROM named AS k
JOIN new_source AS s ON s.source_id = k.source_id
LEFT JOIN new_groups AS g ON g.source_id = k.source_id AND g.name = k.group_name;
