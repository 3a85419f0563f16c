-- analysis: overlap | what overlap of communication and compute achieves, what it costs, how much more was possible, and what to change first
-- answers: How much communication is hidden, what does that cost, how much of the rest could any schedule hide, and what should be changed first?
-- topic: communication
-- grain: one row per operation that ran while no compute did, and one for all of that time together (op is NULL); with per = 'rank' and 'step' of each, with per = 'call' one row per call
-- param: per VARCHAR = 'run' | what rows are of, beside the operation
-- choice: per 'run' | the mean step of all ranks
-- choice: per 'rank' | the mean step of each rank
-- choice: per 'step' | each step of each rank
-- choice: per 'call' | each exposed call, copies and idle time left out
-- param: min_share
-- param: replay_ops
-- column: rank INTEGER | global rank; NULL: the mean over ranks
-- column: step BIGINT | step number, of a call the first in which it is exposed; NULL: the mean over steps, or the whole span
-- column: op VARCHAR | operation of collectives, 'copy' (copies and memsets alone), 'idle' (nothing ran); NULL: all time without compute
-- column: group_id INTEGER | of a call, its process group
-- column: bytes BIGINT | of a call, its size
-- column: collective_id BIGINT | of a call, the instance
-- column: call_id BIGINT | of a call, as in collectives
-- column: calls BIGINT | calls that are exposed, over all ranks and steps
-- column: hidden_ns DOUBLE | achieved: time in which it ran beside compute; the row of all counts each moment once (overlap_ns of breakdown), those of operations each call in full
-- column: lost_ns DOUBLE | what compute loses to it meanwhile, of the kernels that contention could compare; NULL: nothing is known
-- column: exposed_ns DOUBLE | time in which it ran and no compute did: the sum of the next four, and of collectives of the four after those
-- column: launch_starved_ns DOUBLE | of that, the host had launched too little: launched_late of exposed_causes, and idle time by the host's causes
-- column: blocked_ns DOUBLE | a synchronizing call, or work on the same stream: blocked and same_stream, and sync of idle_causes
-- column: dependency_ns DOUBLE | what was launched waited for other ranks, for its input, for this result, for a copy or for another stream
-- column: unknown_ns DOUBLE | start latency, and what is not known
-- column: waiting_ns DOUBLE | of communication, what is known to be waiting for other ranks: no schedule of this rank's, but the late rank
-- column: movable_ns DOUBLE | what compute between the input and the use of a call could have hidden, all else in its order: at most, by a launch at another time, mostly an earlier one, or a queue of its own
-- column: reorder_ns DOUBLE | of the rest, as much as there is compute of the step beside which no communication ran: at most, by another order, another stream or smaller pieces
-- column: never_ns DOUBLE | what no schedule of the same work hides: the step has no more compute
-- column: slack_ns BIGINT | median over calls of the time from when the input was there, on all ranks, to when what waits for the result was ready but for it; NULL: not known
-- column: known_share DOUBLE | of exposed_ns without waiting, the share in calls whose slack is known, 0 to 1
-- column: gain_ns BIGINT | what the mean step of the run gains by replay if it took no time (waiting not removed); of a call, what the run gains at most if it took no time on all its ranks: its part of the critical path; NULL: not replayed
-- column: first_change VARCHAR | of all: what to change first, by what replay gains, else by the largest part
-- column: scenario VARCHAR | that for what-if; NULL: it cannot be said so
-- main: rank, step, op, hidden_ns, lost_ns, exposed_ns, waiting_ns, movable_ns, reorder_ns, never_ns, slack_ns, gain_ns, first_change
-- order: rank NULLS FIRST, step NULLS FIRST, op NULLS FIRST, exposed_ns DESC, call_id
-- caveat: movable_ns and reorder_ns are upper bounds: calls can be divided at will, every moment of compute hides one, and nothing is lost to contention; gain_ns and first_change are by replay.
-- caveat: slack rests on the replay's graph: waits between streams that no record and no order of calls tells are inferred from times (replay_quality). On the stream of compute the input is not known, and what could be hidden is in reorder_ns.
-- caveat: without compute, a rank waits for the latest of several things; each moment is given to one, as exposed_causes, idle_causes and breakdown do.
WITH parts AS (
    SELECT * FROM {{ ref('exposed_parts') }}
    UNION ALL BY NAME
    SELECT k.rank, k.step, k.op, k.group_id, k.bytes, k.collective_id, k.call_id, k.duration_ns - k.exposed_ns AS hidden_ns
    FROM {{ ref('exposed_comm') }} AS k
    UNION ALL BY NAME
    SELECT g.rank, g.step, t.operation AS op, t.lost_ns
    FROM tw_contention AS t JOIN gpu_ops AS g USING (op_id)
    WHERE t.lost_ns IS NOT NULL
    UNION ALL BY NAME
    SELECT rank, step, NULL AS op, overlap_ns FROM {{ ref('budget') }}
    UNION ALL BY NAME
    SELECT *, 'copy' AS op FROM {{ ref('exposed_copies') }}
    UNION ALL BY NAME
    SELECT
        i.rank, i.step, 'idle' AS op, sum(i.idle_ns) AS exposed_ns,
        sum(i.idle_ns) FILTER (WHERE w.part = 'launch_starved') AS launch_starved_ns,
        sum(i.idle_ns) FILTER (WHERE w.part = 'blocked') AS blocked_ns,
        sum(i.idle_ns) FILTER (WHERE w.part = 'dependency') AS dependency_ns,
        sum(i.idle_ns) FILTER (WHERE w.part IS NULL) AS unknown_ns
    FROM {{ ref('idle_causes') }} AS i LEFT JOIN tw_stalls() AS w USING (cause)
    GROUP BY i.rank, i.step
),
keyed AS (
    SELECT
        p.* REPLACE (
            CASE WHEN {{ param('per') }} <> 'run' THEN p.rank END AS rank,
            CASE WHEN {{ param('per') }} IN ('step', 'call') THEN p.step END AS step
        ),
        p.call_id AS one_call,
        CASE WHEN {{ param('per') }} = 'step' THEN p.step END AS step_key,
        CASE WHEN {{ param('per') }} = 'call' THEN p.call_id END AS call_key,
        CASE {{ param('per') }} WHEN 'run' THEN 1 / s.windows WHEN 'rank' THEN 1 / r.windows ELSE 1 END AS weight
    FROM parts AS p CROSS JOIN {{ ref('mean_step') }} AS s JOIN {{ ref('rank_windows') }} AS r ON r.rank = p.rank
    WHERE (p.step IS NOT NULL OR NOT s.has_steps) AND ({{ param('per') }} <> 'call' OR p.call_id IS NOT NULL)
),
summed AS (
    SELECT
        rank, min(step) AS step, op, GROUPING(op) = 1 AS is_all,
        CASE WHEN call_key IS NOT NULL THEN any_value(group_id) END AS group_id,
        CASE WHEN call_key IS NOT NULL THEN any_value(bytes) END AS bytes,
        CASE WHEN call_key IS NOT NULL THEN any_value(collective_id) END AS collective_id,
        call_key AS call_id,
        count(DISTINCT one_call) FILTER (WHERE exposed_ns > 0) AS calls,
        CASE WHEN is_all THEN sum(overlap_ns * weight) ELSE sum(hidden_ns * weight) END AS hidden_ns,
        sum(lost_ns * weight) AS lost_ns,
        coalesce(sum(exposed_ns * weight), 0) AS exposed_ns,
        coalesce(sum(launch_starved_ns * weight), 0) AS launch_starved_ns,
        coalesce(sum(blocked_ns * weight), 0) AS blocked_ns,
        coalesce(sum(dependency_ns * weight), 0) AS dependency_ns,
        coalesce(sum(unknown_ns * weight), 0) AS unknown_ns,
        sum(waiting_ns * weight) AS waiting_ns,
        sum(movable_ns * weight) AS movable_ns,
        sum(reorder_ns * weight) AS reorder_ns,
        sum(never_ns * weight) AS never_ns,
        CAST(median(slack_ns) AS BIGINT) AS slack_ns,
        max(path_ns) AS path_ns,
        coalesce(sum(exposed_ns - waiting_ns) FILTER (WHERE slack_ns IS NOT NULL), 0) / nullif(sum(exposed_ns - waiting_ns), 0) AS known_share
    FROM keyed
    GROUP BY GROUPING SETS ((rank, step_key, op, call_key), (rank, step_key))
)
SELECT
    u.* EXCLUDE (is_all, path_ns),
    CASE WHEN {{ param('per') }} = 'call' THEN u.path_ns ELSE g.alone_ns END AS gain_ns,
    f.said AS first_change,
    f.scenario
FROM summed AS u
LEFT JOIN {{ ref('overlap_gains') }} AS g
    ON {{ param('per') }} = 'run' AND g.scenario = CASE WHEN u.is_all THEN 'kind=transfer times=0' WHEN u.op = 'copy' THEN 'kind=copy times=0'
        ELSE format('op={} kind=transfer times=0', u.op) END
LEFT JOIN {{ ref('first_change') }} AS f ON u.is_all AND {{ param('per') }} = 'run'
WHERE (u.exposed_ns > 0 OR u.hidden_ns > 0 OR u.lost_ns > 0)
    AND CASE WHEN u.is_all THEN {{ param('per') }} <> 'call' ELSE u.op IS NOT NULL END
ORDER BY u.rank NULLS FIRST, u.step NULLS FIRST, u.op NULLS FIRST, u.exposed_ns DESC, u.call_id
