-- What kinds of parallelism leave behind in a trace: which group is for what, where the host issued a collective, and
-- what the device computed meanwhile.

-- rows: tw_progress(ops, of_category, calls) | one row per rank and moment at which work of a category in the relation named `ops` (rank, category, start_ns, end_ns) starts: rank, start_ns, done_ns (length of the union of all that has started by then), until_ns (where that ends); only ranks that the relation named `calls` has
WITH ordered AS (
    SELECT
        rank,
        start_ns,
        end_ns,
        max(end_ns) OVER (
            PARTITION BY rank ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_until_ns
    FROM query_table(ops)
    WHERE category = of_category AND rank IN (SELECT rank FROM query_table(calls))
),
added AS (
    SELECT
        rank,
        start_ns,
        sum(tw_added_ns(start_ns, end_ns, covered_until_ns)) OVER so_far AS done_ns,
        max(end_ns) OVER so_far AS until_ns,
        lead(start_ns) OVER so_far AS next_start_ns
    FROM ordered
    WINDOW so_far AS (PARTITION BY rank ORDER BY start_ns ROWS UNBOUNDED PRECEDING)
)
-- of ops that start together, in whatever order, the last has the sum of all
SELECT rank, start_ns, CAST(done_ns AS BIGINT) AS done_ns, until_ns
FROM added
WHERE next_start_ns IS DISTINCT FROM start_ns;

-- rows: tw_collective_exposure(of_calls, release_ns) | one row per collective that the relation named `of_calls` has (call_id, rank) and that is on its rank's device timeline, on the rank's own clock: call_id, exposed_ns (length of it in which no compute ran), blocked_ns (the last stretch of that, up to its end, if compute went on within release_ns of the end: compute stood still for it)
WITH own_ops AS NOT MATERIALIZED (
    FROM tw_own_ops()
),
progress AS MATERIALIZED (
    SELECT * FROM tw_progress('own_ops', 'compute', of_calls)
),
calls AS MATERIALIZED (
    SELECT call_id, rank, start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns
    FROM collectives
    WHERE call_id IN (SELECT call_id FROM query_table(of_calls))
        -- what a host backend does is not on the timeline of a rank with a GPU
        AND (gpu_op_id IS NOT NULL OR rank IN (SELECT rank FROM tw_timelines WHERE timeline = 'cpu'))
),
begun AS (
    SELECT k.*, coalesce(p.done_ns - tw_overhang_ns(p.until_ns, k.start_ns), 0) AS done_before_ns
    FROM calls AS k ASOF LEFT JOIN progress AS p ON p.rank = k.rank AND k.start_ns >= p.start_ns
),
ended AS (
    SELECT
        k.*,
        coalesce(p.done_ns - tw_overhang_ns(p.until_ns, k.end_ns), 0) AS done_by_end_ns,
        p.until_ns AS computed_until_ns
    FROM begun AS k ASOF LEFT JOIN progress AS p ON p.rank = k.rank AND k.end_ns > p.start_ns
)
SELECT
    k.call_id,
    k.end_ns - k.start_ns - (k.done_by_end_ns - k.done_before_ns) AS exposed_ns,
    CASE WHEN p.start_ns - k.end_ns <= release_ns AND coalesce(k.computed_until_ns < k.end_ns, TRUE)
        THEN k.end_ns - greatest(k.start_ns, coalesce(k.computed_until_ns, k.start_ns)) ELSE 0 END AS blocked_ns
FROM ended AS k ASOF LEFT JOIN progress AS p ON p.rank = k.rank AND k.end_ns <= p.start_ns;

-- table: tw_issued | one row per collective with a host operation: call_id, and rank, pid and tid (-1: no number), start_ns, end_ns (common clock) and kind of that operation
SELECT k.call_id, h.rank, coalesce(h.pid, -1) AS pid, coalesce(h.tid, -1) AS tid, h.start_ns, h.end_ns, h.kind
FROM collectives AS k JOIN host_ops AS h ON h.op_id = k.host_op_id;

-- rows: tw_collective_issue(region) | one row per collective with a host operation: call_id, pid, tid, asked_ns and asked_until_ns (its range on the host), asked_by ('gradient': issued where autograd accumulates gradients, 'region': inside a range whose name contains region, NULL: neither)
-- ranges of one name that contain each other would hide the outer one: autograd's outer range is the one that counts
WITH marks AS MATERIALIZED (
    SELECT
        rank,
        coalesce(pid, -1) AS pid,
        coalesce(tid, -1) AS tid,
        start_ns,
        end_ns,
        starts_with(name, 'autograd') AS is_gradient
    FROM host_ops
    WHERE kind NOT IN ('runtime', 'driver', 'os') AND rank IN (SELECT rank FROM tw_issued)
        AND name IN (
            SELECT name
            FROM tw_range_names
            WHERE (starts_with(name, 'autograd::engine::evaluate_function') AND contains(name, 'AccumulateGrad')) OR contains(name, region)
        )
)
SELECT
    i.call_id,
    i.pid,
    i.tid,
    i.start_ns AS asked_ns,
    i.end_ns AS asked_until_ns,
    CASE WHEN i.start_ns < g.end_ns THEN 'gradient' WHEN i.start_ns < m.end_ns THEN 'region' END AS asked_by
FROM tw_issued AS i
ASOF LEFT JOIN (SELECT * FROM marks WHERE is_gradient) AS g
    ON g.rank = i.rank AND g.pid = i.pid AND g.tid = i.tid AND i.start_ns >= g.start_ns
ASOF LEFT JOIN (SELECT * FROM marks WHERE NOT is_gradient) AS m
    ON m.rank = i.rank AND m.pid = i.pid AND m.tid = i.tid AND i.start_ns >= m.start_ns;

-- rows: tw_issued_within(pattern) | the collectives that the host issued inside a range whose name matches a regular expression: call_id
-- ranges of a thread nest: one is open where the latest end of those that have begun lies ahead
WITH ranges AS (
    SELECT
        rank,
        coalesce(pid, -1) AS pid,
        coalesce(tid, -1) AS tid,
        start_ns,
        max(end_ns) OVER (PARTITION BY rank, coalesce(pid, -1), coalesce(tid, -1) ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS open_until_ns
    FROM host_ops
    WHERE kind NOT IN ('runtime', 'driver', 'os') AND name IN (SELECT name FROM tw_range_names WHERE regexp_matches(name, pattern))
)
SELECT i.call_id
FROM tw_issued AS i
ASOF JOIN ranges AS r ON r.rank = i.rank AND r.pid = i.pid AND r.tid = i.tid AND i.start_ns >= r.start_ns
WHERE i.start_ns < r.open_until_ns;

-- rows: tw_message_rings() | the process groups whose messages go one way round a ring, as in ring attention: each member sends to one and receives from another: group_id
WITH members AS (
    SELECT
        k.group_id,
        k.rank,
        list(DISTINCT coalesce(k.peer, o.rank)) FILTER (k.op = 'send') AS receivers,
        list(DISTINCT coalesce(k.peer, o.rank)) FILTER (k.op = 'recv') AS senders
    FROM collectives AS k
    LEFT JOIN collectives AS o
        ON o.collective_id = k.collective_id AND o.rank <> k.rank AND o.op IN ('send', 'recv') AND o.op <> k.op
    WHERE k.op IN ('send', 'recv') AND k.group_id IS NOT NULL
    GROUP BY k.group_id, k.rank
)
SELECT group_id
FROM members
GROUP BY group_id
HAVING bool_and(coalesce(len(receivers) = 1 AND len(senders) = 1 AND receivers <> senders, FALSE));

-- rows: tw_communicators() | the process groups of MPI programs, whose operations and ranks are no evidence of a kind of parallelism that trains models: group_id
SELECT DISTINCT group_id
FROM collectives JOIN tw_issued AS i USING (call_id)
WHERE group_id IS NOT NULL AND i.kind = 'mpi';

-- rows: tw_pipelines() | the process groups whose messages are those of a pipeline, as far as their roles and messages tell: group_id
SELECT DISTINCT group_id
FROM collectives JOIN groups USING (group_id)
WHERE op IN ('send', 'recv')
    AND (
        role = 'pp'
        OR role IN ('world', 'unknown')
        AND group_id NOT IN (SELECT group_id FROM tw_message_rings())
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
        bool_or(i.asked_by = 'region') AS is_model_parallel
    FROM collectives AS k
    LEFT JOIN tw_collective_issue('ModelParallelRegion') AS i USING (call_id)
    WHERE k.group_id IS NOT NULL AND k.op <> 'unknown'
    GROUP BY k.group_id
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
            WHEN t.is_p2p AND r.group_id IS NOT NULL THEN {'role': 'cp', 'source': 'operations: send and recv one way round a ring'}
            WHEN t.is_p2p THEN {'role': 'pp', 'source': 'operations: only send and recv'}
            WHEN t.has_gradients THEN {'role': 'dp', 'source': 'host: issued where gradients accumulate'}
            WHEN t.has_all_to_all THEN {'role': 'ep', 'source': 'operations: all_to_all'}
            WHEN t.is_sharded THEN {'role': 'dp', 'source': 'operations: all_gather and reduce_scatter'}
        END AS shown,
        CASE
            WHEN NOT coalesce(t.has_all_reduce, FALSE) OR s.group_id IN (SELECT group_id FROM overlapping) THEN NULL
            WHEN s.stride = 1 THEN {'role': 'tp', 'source': 'ranks: neighbours'}
            WHEN s.stride > 1 THEN {'role': 'dp', 'source': 'ranks: stride ' || s.stride}
        END AS laid_out
    FROM shaped AS s
    LEFT JOIN (FROM traffic WHERE group_id NOT IN (SELECT group_id FROM tw_communicators())) AS t USING (group_id)
    LEFT JOIN tw_message_rings() AS r USING (group_id)
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
