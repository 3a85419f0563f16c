-- What process groups are for.

-- rows: tw_communicators() | the process groups of MPI programs, whose operations and ranks are no evidence of a kind of parallelism that trains models: group_id
SELECT DISTINCT group_id
FROM collectives JOIN tw_issued AS i USING (call_id)
WHERE group_id IS NOT NULL AND i.kind = 'mpi';

-- rows: tw_pipelines() | the process groups whose messages are those of a pipeline, as far as their roles and messages tell: group_id
SELECT DISTINCT group_id
FROM collectives LEFT JOIN groups USING (group_id)
WHERE op IN ('send', 'recv') AND group_id IS NOT NULL
    AND (
        role = 'pp'
        OR coalesce(role, 'unknown') IN ('world', 'unknown')
        AND group_id NOT IN (SELECT group_id FROM message_rings)
        AND group_id NOT IN (SELECT group_id FROM tw_communicators())
    );

-- rows: tw_group_roles(given_id, given_role) | one row per process group, the group given_id (NULL: none) taken for given_role: group_id, role and role_source as in groups, refined where that is 'unknown'; used_for: the role, or for a group of all ranks what the job says of it, else what its operations show, NULL if they do not; used_source: what used_for rests on
WITH traffic AS (
    SELECT
        k.group_id,
        bool_and(k.op IN ('send', 'recv')) AS is_p2p,
        bool_or(k.op IN ('all_to_all', 'dispatch', 'combine')) AS has_all_to_all,
        bool_or(k.op = 'all_gather') AND bool_or(k.op = 'reduce_scatter') AS is_sharded,
        bool_or(k.op = 'all_reduce') AS has_all_reduce,
        bool_or(i.asked_by = 'gradient') AS has_gradients,
        bool_or(i.asked_by = 'region') AS is_model_parallel,
        -- as many others for each member: not one that all send to
        coalesce(any_value(p.is_round), TRUE) AS is_round
    FROM collectives AS k
    LEFT JOIN tw_collective_issue() AS i USING (call_id)
    LEFT JOIN (
        SELECT group_id, min(peers) = max(peers) AS is_round
        FROM (SELECT group_id, rank, nullif(count(DISTINCT peer), 0) AS peers FROM tw_messages() GROUP BY group_id, rank)
        GROUP BY group_id
    ) AS p USING (group_id)
    WHERE k.group_id IS NOT NULL AND k.op <> 'unknown'
    GROUP BY k.group_id
),
reduced AS (
    SELECT DISTINCT group_id
    FROM collectives SEMI JOIN (
        SELECT op_id AS gpu_op_id
        FROM gpu_ops
        WHERE name IN (
            SELECT name FROM (SELECT DISTINCT name FROM gpu_ops WHERE category = 'communication')
            WHERE {{ names('model_parallel_ranges', 'name') }} = 'reduction'
        )
    ) USING (gpu_op_id)
),
shaped AS (
    SELECT
        group_id,
        role,
        role_source,
        CASE WHEN stated_role IN ('dp', 'tp', 'pp', 'ep', 'cp') THEN {'role': stated_role, 'source': 'the job says so'} END AS stated,
        ranks,
        -- the distance from one member to the next, if it is the same everywhere and all members are known
        CASE WHEN len(ranks) = size AND size > 1 AND NOT starts_with(membership, 'unknown')
            AND list_sort(ranks) = range(ranks[1], ranks[-1] + 1, (ranks[-1] - ranks[1]) // (size - 1))
            THEN (ranks[-1] - ranks[1]) // (size - 1) END AS stride
    FROM groups
),
-- a rank has one place in a kind of parallelism: groups laid out alike that share some of their ranks are no such kind,
-- unless one lies within the other: a larger group may be of another kind, as all ranks of a host beside pairs of them
overlapping AS (
    SELECT DISTINCT a.group_id
    FROM shaped AS a JOIN shaped AS b
        ON a.stride = b.stride AND list_has_any(a.ranks, b.ranks) AND NOT list_has_all(a.ranks, b.ranks) AND NOT list_has_all(b.ranks, a.ranks)
    WHERE b.group_id IN (SELECT group_id FROM traffic WHERE has_all_reduce) AND b.role = 'unknown'
),
read AS (
    SELECT
        s.*,
        CASE
            WHEN t.is_model_parallel THEN {'role': 'tp', 'source': 'host: issued in a model-parallel region'}
            WHEN s.group_id IN (SELECT group_id FROM reduced) THEN {'role': 'tp', 'source': 'operations: reductions of an inference engine'}
            WHEN t.is_p2p AND r.group_id IS NOT NULL AND t.is_round THEN {'role': 'cp', 'source': 'operations: send and recv round a ring'}
            WHEN t.is_p2p AND r.group_id IS NULL THEN {'role': 'pp', 'source': 'operations: only send and recv'}
            WHEN t.has_gradients THEN {'role': 'dp', 'source': 'host: issued where gradients accumulate'}
            WHEN t.has_all_to_all THEN {'role': 'ep', 'source': 'operations: all_to_all'}
            -- what is reduced there are no gradients, where operators are recorded and none of them runs backward
            WHEN t.is_sharded AND EXISTS (FROM host_ops WHERE kind = 'op')
                AND NOT EXISTS (FROM tw_range_names WHERE autograd IS NOT NULL OR contains(lower(name), 'backward'))
                THEN {'role': 'tp', 'source': 'operations: all_gather and reduce_scatter without a backward pass'}
            WHEN t.is_sharded THEN {'role': 'dp', 'source': 'operations: all_gather and reduce_scatter'}
        END AS shown,
        CASE
            WHEN NOT coalesce(t.has_all_reduce, FALSE) OR s.group_id IN (SELECT group_id FROM overlapping) THEN NULL
            WHEN s.stride = 1 THEN {'role': 'tp', 'source': 'ranks: neighbours'}
            WHEN s.stride > 1 THEN {'role': 'dp', 'source': 'ranks: stride ' || s.stride}
        END AS laid_out
    FROM shaped AS s
    LEFT JOIN (FROM traffic WHERE group_id NOT IN (SELECT group_id FROM tw_communicators())) AS t USING (group_id)
    LEFT JOIN message_rings AS r USING (group_id)
)
SELECT
    group_id,
    CASE WHEN role = 'unknown' THEN coalesce(shown.role, laid_out.role, 'unknown') ELSE role END AS role,
    CASE WHEN role = 'unknown' THEN coalesce(shown.source, laid_out.source, role_source) ELSE role_source END AS role_source,
    CASE WHEN group_id = given_id THEN given_role
         WHEN role = 'world' THEN coalesce(stated.role, shown.role)
         WHEN role = 'unknown' THEN coalesce(shown.role, laid_out.role) ELSE role END AS used_for,
    CASE WHEN group_id = given_id THEN 'parameter'
         WHEN role = 'world' THEN coalesce(stated.source, shown.source)
         WHEN role = 'unknown' THEN coalesce(shown.source, laid_out.source) ELSE role_source END AS used_source
FROM read;
