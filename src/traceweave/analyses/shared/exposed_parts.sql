-- shared: exposed_parts | exposed communication of each call: why it is exposed, and how much of it could have been hidden
-- grain: one row per rank, step and call that is exposed
-- column: rank INTEGER | global rank
-- column: step BIGINT | as in exposed_causes
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group
-- column: bytes BIGINT | size
-- column: collective_id BIGINT | the instance
-- column: call_id BIGINT | as in collectives
-- column: exposed_ns BIGINT | time of it that no compute hides: the sum of the next four, and of the last four
-- column: launch_starved_ns BIGINT | compute that follows, or the call, was launched late
-- column: blocked_ns BIGINT | a synchronizing call, or compute on the same stream
-- column: dependency_ns BIGINT | other ranks, its input, or compute that needs its result
-- column: unknown_ns BIGINT | start latency, or not known
-- column: slack_ns BIGINT | as in hideable
-- column: path_ns BIGINT | as in hideable
-- column: waiting_ns BIGINT | waiting for other ranks
-- column: movable_ns BIGINT | as in hideable: at another time, all else in its order
-- column: reorder_ns BIGINT | of the rest, as much as the step had compute beside which nothing ran
-- column: never_ns BIGINT | what is left: no schedule hides it
WITH calls AS (
    SELECT
        x.rank, x.step, x.call_id,
        any_value(x.op) AS op, any_value(x.group_id) AS group_id, any_value(x.bytes) AS bytes,
        any_value(x.collective_id) AS collective_id,
        sum(x.time_ns) AS exposed_ns,
        coalesce(sum(x.time_ns) FILTER (WHERE w.part = 'launch_starved'), 0) AS launch_starved_ns,
        coalesce(sum(x.time_ns) FILTER (WHERE w.part = 'blocked'), 0) AS blocked_ns,
        coalesce(sum(x.time_ns) FILTER (WHERE w.part = 'dependency'), 0) AS dependency_ns,
        coalesce(sum(x.time_ns) FILTER (WHERE x.cause = 'other_ranks'), 0) AS waiting_ns,
        any_value(h.slack_ns) AS slack_ns,
        any_value(h.path_ns) AS path_ns,
        coalesce(any_value(h.movable_ns), 0) AS may_ns
    FROM {{ ref('exposed_causes') }} AS x
    LEFT JOIN tw_stalls() AS w USING (cause)
    LEFT JOIN {{ ref('hideable') }} AS h USING (call_id)
    GROUP BY x.rank, x.step, x.call_id
),
-- a call that runs on into the next step begins in this one
moved AS (
    SELECT
        *,
        greatest(0, least(exposed_ns - waiting_ns, may_ns - coalesce(sum(exposed_ns - waiting_ns) OVER (
            PARTITION BY call_id ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0))) AS movable_ns
    FROM calls
),
divided AS (
    SELECT
        e.*,
        e.exposed_ns - e.waiting_ns - e.movable_ns AS rest_ns,
        greatest(0, b.compute_ns - b.overlap_ns - sum(e.movable_ns) OVER by_step) AS free_ns,
        sum(e.exposed_ns - e.waiting_ns - e.movable_ns) OVER by_step AS all_rest_ns
    FROM moved AS e LEFT JOIN {{ ref('budget') }} AS b ON b.rank = e.rank AND b.step IS NOT DISTINCT FROM e.step
    WINDOW by_step AS (PARTITION BY e.rank, e.step)
)
SELECT
    rank, step, op, group_id, bytes, collective_id, call_id, CAST(exposed_ns AS BIGINT) AS exposed_ns,
    CAST(launch_starved_ns AS BIGINT) AS launch_starved_ns,
    CAST(blocked_ns AS BIGINT) AS blocked_ns,
    CAST(dependency_ns AS BIGINT) AS dependency_ns,
    CAST(exposed_ns - launch_starved_ns - blocked_ns - dependency_ns AS BIGINT) AS unknown_ns,
    slack_ns,
    path_ns,
    CAST(waiting_ns AS BIGINT) AS waiting_ns,
    CAST(movable_ns AS BIGINT) AS movable_ns,
    CAST(floor(rest_ns * least(1, coalesce(free_ns, 0) / greatest(all_rest_ns, 1))) AS BIGINT) AS reorder_ns,
    CAST(rest_ns - floor(rest_ns * least(1, coalesce(free_ns, 0) / greatest(all_rest_ns, 1))) AS BIGINT) AS never_ns
FROM divided
