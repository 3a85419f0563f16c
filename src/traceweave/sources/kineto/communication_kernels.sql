-- What each communication kernel, and the host around its launch, say of it -> communication_kernels. What a kernel does not say
-- itself (torch < 2.2, kernels of a group call, keys that a version copies to no kernel) is taken from the host operations around its
-- launch: `record_param_comms` carries the same keys, the `nccl:...` annotation inside it the tensor's shape and type.
-- Input: new_gpu_ops with launch_op_id, new_host_ops, host_names, classified.

CREATE OR REPLACE TEMP MACRO collective_keys(args) AS json_transform(args, '{
    "Collective name": "VARCHAR", "In msg nelems": "VARCHAR", "Out msg nelems": "VARCHAR", "Group size": "VARCHAR", "dtype": "VARCHAR",
    "Process Group Name": "VARCHAR", "Process Group Description": "VARCHAR", "Process Group Ranks": "VARCHAR", "Seq": "VARCHAR",
    "Dst Rank": "VARCHAR", "Src Rank": "VARCHAR", "In msg size": "VARCHAR", "Out msg size": "VARCHAR", "Comms Id": "VARCHAR",
    "Rank": "VARCHAR"
}');

-- What a kernel says of itself, with what names its group and its number from the operation that issued it, if that speaks of the same.
CREATE OR REPLACE TEMP MACRO told_by_issuer(kernel, issuer) AS CASE
    WHEN kernel."Collective name" IS DISTINCT FROM issuer."Collective name"
        OR coalesce(kernel."Process Group Name" <> issuer."Process Group Name", FALSE) THEN kernel
    ELSE struct_update(
        kernel,
        Seq := coalesce(kernel.Seq, issuer.Seq),
        "Comms Id" := coalesce(kernel."Comms Id", issuer."Comms Id"),
        Rank := issuer.Rank,
        "Process Group Name" := coalesce(kernel."Process Group Name", issuer."Process Group Name"),
        "Process Group Description" := coalesce(kernel."Process Group Description", issuer."Process Group Description"),
        "Process Group Ranks" := coalesce(kernel."Process Group Ranks", issuer."Process Group Ranks")
    )
END;

CREATE OR REPLACE TEMP TABLE communication_kernels AS
WITH kernels AS (
    SELECT source_of(g.op_id) AS source_id, g.rank, g.op_id, g.name, g.stream, g.start_local_ns, g.duration_ns, g.args, g.graph_node, g.launch_op_id, l.tid, l.start_local_ns AS launched_ns
    FROM new_gpu_ops AS g
    JOIN classified AS c USING (kind, name)
    LEFT JOIN new_host_ops AS l ON l.op_id = g.launch_op_id
    WHERE c.category = 'communication'
),
issuers AS (
    SELECT rank, op_id, tid, start_local_ns, start_local_ns + duration_ns AS end_local_ns, args
    FROM new_host_ops WHERE name = 'record_param_comms'
),
announcements AS (
    SELECT rank, op_id, name, tid, start_local_ns, start_local_ns + duration_ns AS end_local_ns, args
    FROM new_host_ops SEMI JOIN (FROM host_names WHERE kind = 'annotation' AND part IN ('device', 'host')) AS n USING (kind, name)
)
SELECT
    k.source_id, k.rank, k.op_id, k.name, k.stream, k.start_local_ns, k.duration_ns, k.graph_node, k.launch_op_id,
    CASE WHEN k.launched_ns <= i.end_local_ns THEN i.op_id END AS issuer_id,
    CASE WHEN k.launched_ns <= n.end_local_ns THEN n.name END AS announced,
    CASE WHEN k.launched_ns <= n.end_local_ns THEN n.args END AS announced_args,
    CASE WHEN json_exists(k.args, '$."Collective name"') OR json_exists(k.args, '$."In msg size"')
             THEN told_by_issuer(collective_keys(k.args), CASE WHEN k.launched_ns <= i.end_local_ns THEN collective_keys(i.args) END)
         WHEN k.launched_ns <= i.end_local_ns THEN collective_keys(i.args) END AS keys,
    CASE WHEN k.launched_ns <= i.end_local_ns THEN i.args END AS issuer_args
FROM kernels AS k
ASOF LEFT JOIN issuers AS i ON k.rank = i.rank AND k.tid = i.tid AND k.launched_ns >= i.start_local_ns
ASOF LEFT JOIN announcements AS n ON k.rank = n.rank AND k.tid = n.tid AND k.launched_ns >= n.start_local_ns;
