-- analysis: tp | how much of every step its tensor-parallel collectives take, and how much of that is on the critical stream
-- answers: How long does tensor parallelism block compute?
-- topic: parallelism
-- grain: one row per rank, step and tensor-parallel group
-- needs: collectives, groups
-- within: rank
-- param: group_id BIGINT = NULL | treat this group as tensor parallel; NULL: all groups that the traces show to be
-- param: release_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which they were issued; NULL outside any step
-- column: group_id INTEGER | process group
-- column: window_ns BIGINT | length of the step's device window (of its range on the host without a GPU); of the rank's span outside steps
-- column: calls BIGINT | the group's operations
-- column: bytes BIGINT | sum of their sizes, as far as they are known (note says of how many they are not); NULL if none is
-- column: comm_ns BIGINT | sum of their durations, waiting for other ranks included
-- column: wait_ns BIGINT | of that, the time until the last rank had started; NULL if no other rank was seen
-- column: same_stream_ns BIGINT | of comm_ns, the part on the rank's busiest compute stream: no compute of that stream can hide it
-- column: exposed_ns BIGINT | of comm_ns, the time in which no compute ran
-- column: blocked_ns BIGINT | of that, the last stretch of each operation up to its end, if compute resumed right after it: compute stalled for it
-- column: comm_share DOUBLE | comm_ns / window_ns
-- column: exposed_share DOUBLE | exposed_ns / window_ns
-- column: blocked_share DOUBLE | blocked_ns / window_ns: the collectives' share of the critical stream
-- column: comm_hidden_fraction DOUBLE | (comm_ns - exposed_ns) / comm_ns, 0 to 1; NULL if that is 0
-- column: used_source VARCHAR | evidence that the group is tensor parallel
-- column: note VARCHAR | why a value is NULL
-- main: rank, step, group_id, window_ns, calls, comm_ns, wait_ns, exposed_ns, blocked_ns, blocked_share, note
-- order: rank, step NULLS FIRST, group_id
-- caveat: operations of one group that run at the same time on a rank are each counted in full.
-- caveat: waiting for another rank blocks compute just as the transfer does: wait_ns is that part.
WITH roles AS MATERIALIZED (
    SELECT * FROM tw_group_roles({{ param('group_id') }}, 'tp') WHERE used_for = 'tp' AND ({{ param('group_id') }} IS NULL OR group_id = {{ param('group_id') }})
),
streams AS (
    SELECT rank, arg_max(stream, busy_ns) AS stream
    FROM (
        SELECT rank, stream, sum(duration_ns) AS busy_ns
        FROM device_ops
        WHERE category = 'compute' AND rank IN (SELECT rank FROM collectives JOIN roles USING (group_id))
        GROUP BY rank, stream
    )
    GROUP BY rank
),
calls AS MATERIALIZED (
    SELECT k.*, r.used_source FROM collectives AS k JOIN roles AS r USING (group_id)
),
summed AS (
    SELECT
        k.rank,
        k.step,
        k.group_id,
        any_value(k.used_source) AS used_source,
        count(*) AS calls,
        CAST(sum(k.bytes) AS BIGINT) AS bytes,
        count(k.bytes) AS said,
        CAST(sum(k.duration_ns) AS BIGINT) AS comm_ns,
        CASE WHEN count(w.wait_ns) = count(*) THEN CAST(sum(w.wait_ns) AS BIGINT) END AS wait_ns,
        CAST(sum(CASE WHEN k.stream = s.stream THEN k.duration_ns ELSE 0 END) AS BIGINT) AS same_stream_ns,
        CAST(sum(e.exposed_ns) AS BIGINT) AS exposed_ns,
        CAST(sum(e.blocked_ns) AS BIGINT) AS blocked_ns
    FROM calls AS k
    JOIN tw_collective_exposure('calls', {{ param('release_ns') }}) AS e USING (call_id)
    LEFT JOIN streams AS s ON s.rank = k.rank
    LEFT JOIN tw_shared_waits() AS w ON w.collective_id = k.collective_id AND w.rank = k.rank
    GROUP BY k.rank, k.step, k.group_id
),
-- NULL stands for a rank's whole span here
windows AS (
    SELECT rank, step, end_ns - start_ns AS window_ns FROM tw_windows('device') WHERE step IS NOT NULL
    UNION ALL
    SELECT rank, step, end_ns - start_ns AS window_ns FROM tw_windows('span')
)
SELECT
    s.rank,
    s.step,
    s.group_id,
    w.window_ns,
    s.calls,
    s.bytes,
    s.comm_ns,
    s.wait_ns,
    s.same_stream_ns,
    s.exposed_ns,
    s.blocked_ns,
    tw_ratio(s.comm_ns, w.window_ns) AS comm_share,
    tw_ratio(s.exposed_ns, w.window_ns) AS exposed_share,
    tw_ratio(s.blocked_ns, w.window_ns) AS blocked_share,
    tw_ratio(s.comm_ns - s.exposed_ns, s.comm_ns) AS comm_hidden_fraction,
    s.used_source,
    nullif(concat_ws('; ',
        CASE WHEN s.step IS NULL THEN 'outside any step: the window is the span of the rank' END,
        tw_unsaid_bytes(s.said, s.calls),
        CASE WHEN s.wait_ns IS NULL THEN 'some were seen on one rank only' END
    ), '') AS note
FROM summed AS s LEFT JOIN windows AS w ON w.rank = s.rank AND w.step IS NOT DISTINCT FROM s.step
ORDER BY s.rank, s.step NULLS FIRST, s.group_id
