-- communication_kernels -> new_collective_calls: one row per kernel, or per message of a kernel that does several.
-- Input: communication_kernels, known_groups (pg_config of the file), only_groups, only_members, new_source.

INSERT INTO new_collective_calls BY NAME
WITH named AS (
    SELECT
        communication_kernels.*,
        -- an announcement may say no more than that the kernel is that of a group call (nccl:coalesced)
        coalesce(
            nullif(collective_op(coalesce(keys."Collective name", announced)), 'unknown'), collective_op(communication_kernels.name)
        ) AS op,
        coalesce(keys."Process Group Name", only_group.name) AS group_name,
        TRY_CAST(keys."Group size" AS INTEGER) AS group_size,
        coalesce(keys.dtype, json_extract_string(announced_args, '$."Input type"[0]')) AS dtype,
        greatest(TRY_CAST(keys."In msg nelems" AS BIGINT), TRY_CAST(keys."Out msg nelems" AS BIGINT)) AS elements,
        greatest(TRY_CAST(keys."In msg size" AS BIGINT), TRY_CAST(keys."Out msg size" AS BIGINT)) AS message_bytes
    FROM communication_kernels
    LEFT JOIN only_groups AS only_group USING (rank)
)
SELECT
    s.rank,
    k.op_id AS gpu_op_id,
    coalesce(k.issuer_id, k.launch_op_id) AS host_op_id,
    k.op,
    k.group_name,
    coalesce(k.keys."Process Group Description", g.description) AS group_desc,
    coalesce(g.ranks, TRY_CAST(k.keys."Process Group Ranks" AS INTEGER[]), o.ranks) AS group_ranks,
    coalesce(g.size, k.group_size, len(TRY_CAST(k.keys."Process Group Ranks" AS INTEGER[])), len(o.ranks)) AS group_size,
    NULL AS comm_id,
    -- of what a CUDA graph replays each replay states the number that it had when it was captured
    CASE WHEN k.graph_node IS NULL THEN call_number(k.keys) END AS seq,
    k.dtype,
    CASE
        WHEN k.message_bytes IS NOT NULL THEN k.message_bytes
        WHEN k.elements IS NOT NULL THEN TRY_CAST(CAST(k.elements AS HUGEINT) * dtype_bytes(k.dtype) AS BIGINT)
        WHEN k.op = 'all_gather' THEN
            TRY_CAST(CAST(first_tensor_elements(k.announced_args) AS HUGEINT) * dtype_bytes(k.dtype) * coalesce(g.size, k.group_size, s.world_size) AS BIGINT)
        ELSE TRY_CAST(CAST(coalesce(first_tensor_elements(k.announced_args), first_tensor_elements(k.issuer_args)) AS HUGEINT) * dtype_bytes(k.dtype) AS BIGINT)
    END AS bytes,
    TRY_CAST(coalesce(CASE WHEN k.op = 'send' THEN k.keys."Dst Rank" END, CASE WHEN k.op = 'recv' THEN k.keys."Src Rank" END) AS INTEGER) AS peer,
    -- of others this is the rank itself
    CASE WHEN has_root(k.op) THEN TRY_CAST(k.keys.Rank AS INTEGER) END AS root_place,
    k.stream,
    k.start_local_ns,
    k.duration_ns,
    CASE
        WHEN k.keys."Collective name" IS NOT NULL AND k.graph_node IS NOT NULL THEN 'capture'
        WHEN k.keys."Collective name" IS NOT NULL THEN 'metadata'
        WHEN k.announced IS NOT NULL THEN 'host op'
        ELSE 'name'
    END AS evidence
FROM named AS k
JOIN new_source AS s ON s.rank = k.rank
LEFT JOIN known_groups AS g ON g.rank = k.rank AND g.name = k.group_name
LEFT JOIN only_members AS o ON o.rank = k.rank AND k.group_name IS NULL AND k.group_size IS NULL;
