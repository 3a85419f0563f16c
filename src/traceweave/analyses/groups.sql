-- analysis: groups | what each process group is for, what its communication costs, and how much of that is hidden
-- answers: Which kind of parallelism does the communication belong to, and how much of it is exposed?
-- topic: parallelism
-- grain: one row per process group, or per role
-- needs: collectives
-- param: per VARCHAR = 'group' | what one row is
-- choice: per 'group' | a process group
-- choice: per 'role' | all groups of one role and use together, each rank's time counted once; the group's own columns are NULL
-- column: group_id INTEGER | process group; NULL: operations of no known group, or per = 'role'
-- column: role VARCHAR | 'world', 'dp', 'tp', 'pp', 'ep', 'cp' or 'unknown'
-- column: role_source VARCHAR | evidence for the role
-- column: used_for VARCHAR | the role; of a group of all ranks, what the job says it is used for, else what its operations show; NULL if they do not
-- column: used_source VARCHAR | evidence for used_for
-- column: name VARCHAR | the group's own name
-- column: description VARCHAR | its description
-- column: size INTEGER | number of members; NULL if unknown
-- column: ranks INTEGER[] | its members as far as known
-- column: groups BIGINT | groups in this row
-- column: ranks_seen BIGINT | ranks whose operations are in the traces
-- column: ops VARCHAR | their operations, by name
-- column: calls BIGINT | operations, counted once per rank
-- column: bytes BIGINT | sum of their sizes, counted once per rank, as far as they are known (note says of how many they are not); NULL if none is
-- column: comm_ns BIGINT | time in which they ran, summed over the ranks
-- column: overlap_ns BIGINT | part of it in which compute ran on the same rank
-- column: exposed_ns BIGINT | the rest
-- column: comm_hidden_fraction DOUBLE | overlap_ns / comm_ns, 0 to 1; NULL without communication
-- column: exposed_share DOUBLE | exposed_ns / the spans of these ranks from their first op to the end of their last
-- column: note VARCHAR | why a value is NULL or doubtful
-- column: link VARCHAR | where its bytes go: 'intra-node', 'inter-node' or 'mixed'; NULL if unknown
-- main: group_id, role, used_for, size, link, ranks, ops, calls, bytes, comm_ns, exposed_ns, comm_hidden_fraction, note
-- order: exposed_ns DESC NULLS LAST, group_id NULLS LAST, role
-- caveat: a role is what the job says (roles of traceweave.capture), else read from the group's description or name, else from how its operations are issued and mixed, else from its ranks: neighbours count as tensor parallel, ranks at a constant distance as data parallel, unless groups laid out alike share some of their ranks and neither lies within the other. role_source says which. Communicators of MPI have a role only where the job says so.
-- caveat: all_to_all marks expert parallelism here; sequence parallelism by all_to_all, as in Ulysses, looks the same.
-- caveat: operations of two groups at the same time count for both: the rows need not add up to breakdown's comm_ns.
WITH roles AS MATERIALIZED (
    SELECT * FROM tw_group_roles(NULL, NULL)
),
calls AS MATERIALIZED (
    SELECT
        CASE WHEN {{ param('per') }} = 'group' THEN k.group_id END AS group_id,
        k.group_id AS own_group_id,
        coalesce(r.role, 'unknown') AS role,
        CASE WHEN {{ param('per') }} = 'group' THEN r.role_source END AS role_source,
        r.used_for,
        CASE WHEN {{ param('per') }} = 'group' THEN r.used_source END AS used_source,
        k.rank,
        k.op,
        k.bytes,
        k.start_local_ns AS start_ns,
        k.start_local_ns + k.duration_ns AS end_ns
    FROM collectives AS k LEFT JOIN roles AS r USING (group_id)
    -- what a host backend does is not on the timeline of a rank with a GPU
    WHERE k.gpu_op_id IS NOT NULL OR k.rank IN (SELECT rank FROM tw_timelines WHERE timeline = 'cpu')
),
counted AS (
    SELECT
        group_id,
        role,
        role_source,
        used_for,
        used_source,
        count(DISTINCT coalesce(own_group_id, -1)) AS groups,
        count(DISTINCT rank) AS ranks_seen,
        string_agg(DISTINCT op, ', ' ORDER BY op) AS ops,
        count(*) AS calls,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        count(bytes) AS said
    FROM calls
    GROUP BY group_id, role, role_source, used_for, used_source
),
-- what each operation adds to the union of those of its row before it
pieces AS (
    SELECT
        group_id,
        role,
        used_for,
        rank,
        greatest(start_ns, coalesce(max(end_ns) OVER before, start_ns)) AS start_ns,
        end_ns
    FROM calls
    WINDOW before AS (
        PARTITION BY group_id, role, used_for, rank ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
own_ops AS NOT MATERIALIZED (
    FROM tw_own_ops()
),
progress AS MATERIALIZED (
    SELECT * FROM tw_progress('own_ops', 'compute', 'calls')
),
begun AS (
    SELECT k.*, coalesce(p.done_ns - tw_overhang_ns(p.until_ns, k.start_ns), 0) AS done_before_ns
    FROM (SELECT * FROM pieces WHERE start_ns < end_ns) AS k
    ASOF LEFT JOIN progress AS p ON p.rank = k.rank AND k.start_ns >= p.start_ns
),
measured AS (
    SELECT
        k.group_id,
        k.role,
        k.used_for,
        k.rank,
        sum(k.end_ns - k.start_ns) AS comm_ns,
        sum(coalesce(p.done_ns - tw_overhang_ns(p.until_ns, k.end_ns), 0) - k.done_before_ns) AS overlap_ns
    FROM begun AS k ASOF LEFT JOIN progress AS p ON p.rank = k.rank AND k.end_ns >= p.start_ns
    GROUP BY k.group_id, k.role, k.used_for, k.rank
),
spans AS (
    SELECT rank, max(end_ns) - min(start_ns) AS span_ns FROM own_ops GROUP BY rank
),
summed AS (
    SELECT
        group_id,
        role,
        used_for,
        CAST(sum(comm_ns) AS BIGINT) AS comm_ns,
        CAST(sum(overlap_ns) AS BIGINT) AS overlap_ns,
        CAST(sum(span_ns) AS BIGINT) AS span_ns
    FROM measured JOIN spans USING (rank)
    GROUP BY group_id, role, used_for
)
SELECT
    c.group_id,
    c.role,
    c.role_source,
    c.used_for,
    c.used_source,
    g.name,
    g.description,
    g.size,
    g.ranks,
    c.groups,
    c.ranks_seen,
    c.ops,
    c.calls,
    c.bytes,
    s.comm_ns,
    s.overlap_ns,
    s.comm_ns - s.overlap_ns AS exposed_ns,
    tw_ratio(s.overlap_ns, s.comm_ns) AS comm_hidden_fraction,
    tw_ratio(s.comm_ns - s.overlap_ns, s.span_ns) AS exposed_share,
    nullif(concat_ws('; ',
        CASE WHEN c.group_id IS NULL AND {{ param('per') }} = 'group' THEN 'the traces do not say which group' END,
        CASE WHEN c.used_for IS NULL AND c.role = 'world' THEN 'the operations do not show what the group of all ranks is used for' END,
        CASE
            WHEN starts_with(g.membership, 'unknown: ') THEN substr(g.membership, 10) || ': these may be operations of several'
            WHEN c.ranks_seen < g.size AND r.recorded = g.size THEN format('operations of {} of {} ranks seen', c.ranks_seen, g.size)
            WHEN c.ranks_seen < g.size THEN c.ranks_seen || ' of ' || g.size || ' ranks recorded'
        END,
        tw_unsaid_bytes(c.said, c.calls)
    ), '') AS note,
    g.link
FROM counted AS c
LEFT JOIN summed AS s
    ON s.group_id IS NOT DISTINCT FROM c.group_id AND s.role = c.role AND s.used_for IS NOT DISTINCT FROM c.used_for
LEFT JOIN groups AS g ON g.group_id = c.group_id
LEFT JOIN (
    SELECT group_id, count(*) AS recorded FROM (SELECT group_id, unnest(ranks) AS rank FROM groups) SEMI JOIN ranks USING (rank) GROUP BY group_id
) AS r ON r.group_id = c.group_id
ORDER BY exposed_ns DESC NULLS LAST, c.group_id NULLS LAST, c.role
