-- shared: exposed_stretches | stretches of calls in which no compute ran, and why: a stretch with several causes has a row for each
-- grain: one row per rank, step, call, stretch and cause
-- param: window
-- param: release_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in whose window it is; NULL: the rank's whole span
-- column: call_id BIGINT | as in collectives; NULL: the kernel is no recognized collective
-- column: op_id BIGINT | the GPU op; without one a number of the call's own, below 0
-- column: start_ns BIGINT | start of the stretch, common clock
-- column: duration_ns BIGINT | its length, on the rank's own clock
-- column: cause VARCHAR | as in exposed_causes
-- column: cause_detail VARCHAR | the same
-- column: time_ns BIGINT | how much of it is for this cause
WITH
-- of a kernel that carries several calls the first
calls AS MATERIALIZED (
    SELECT k.*, coalesce(k.gpu_op_id, -1 - k.call_id) AS op_id, k.start_local_ns + s.wait_ns AS waited_until_ns, coalesce(s.wait_ns, 0) >= {{ param('release_ns') }} AS waits
    FROM collectives AS k LEFT JOIN (SELECT call_id, wait_ns FROM tw_split_calls()) AS s USING (call_id)
    QUALIFY row_number() OVER (PARTITION BY coalesce(k.gpu_op_id, -1 - k.call_id) ORDER BY k.call_id) = 1
),
stretches AS (
    SELECT
        p.rank, p.op_id, p.next_op_id, p.other_ns / (p.end_ns - p.start_ns) AS other_share,
        unnest([
            {'reason': 'other_ranks', 'from_ns': p.start_ns, 'until_ns': least(p.end_ns, p.waited_until_ns)},
            {'reason': p.reason, 'from_ns': greatest(p.start_ns, p.waited_until_ns), 'until_ns': p.end_ns}
        ], recursive := TRUE)
    FROM (
        SELECT p.*, coalesce(k.waited_until_ns, p.start_ns) AS waited_until_ns
        FROM tw_exposed_pieces AS p LEFT JOIN calls AS k USING (op_id)
    ) AS p
),
pieces AS (
    FROM stretches WHERE from_ns < until_ns
),
cut AS MATERIALIZED (
    SELECT rank, step, op_id, reason, next_op_id, other_share, at_ns AS from_ns, time_ns FROM tw_cut('pieces', {{ param('window') }})
),
held AS (
    SELECT DISTINCT op_id, held_by, late_ns, after_op_id FROM tw_exposed_pieces
),
-- what begins earlier shortens no more of what is exposed than there is
shares AS (
    SELECT
        c.op_id,
        any_value(h.held_by) AS held_by,
        any_value(h.after_op_id) AS after_op_id,
        coalesce(bool_or(k.waits), FALSE) AS waits,
        CASE WHEN any_value(h.held_by) = 'compute' THEN least(1, any_value(h.late_ns) / sum(c.time_ns)) ELSE 0 END AS of_all,
        CASE WHEN any_value(h.held_by) IN ('stream', 'launch') AND NOT coalesce(bool_or(k.waits), FALSE)
            THEN least(1, any_value(h.late_ns) / nullif(sum(c.time_ns) FILTER (WHERE c.reason = 'needs_it'), 0)) END AS of_needed
    FROM (FROM cut WHERE reason <> 'other_ranks' AND time_ns > 0) AS c
    LEFT JOIN held AS h USING (op_id)
    LEFT JOIN calls AS k USING (op_id)
    GROUP BY c.op_id
),
divided AS (
    SELECT
        c.*, s.held_by, s.after_op_id, s.waits,
        CASE WHEN reason = 'other_ranks' THEN 0 ELSE CAST(floor(time_ns * coalesce(s.of_all, 0)) AS BIGINT) END AS stream_ns,
        CASE WHEN reason IN ('not_launched', 'unknown') THEN CAST(round((time_ns - stream_ns) * other_share) AS BIGINT) ELSE 0 END AS other_ns,
        CASE WHEN reason = 'needs_it' THEN CAST(floor((time_ns - stream_ns) * coalesce(s.of_needed, 0)) AS BIGINT) ELSE 0 END AS late_ns
    FROM cut AS c LEFT JOIN shares AS s USING (op_id)
    WHERE time_ns > 0
),
caused AS MATERIALIZED (
    SELECT
        rank, step, op_id, next_op_id, after_op_id, held_by, from_ns, time_ns AS whole_ns,
        unnest([
            {'cause': 'same_stream', 'time_ns': stream_ns},
            {'cause': CASE reason WHEN 'not_launched' THEN 'blocked' ELSE 'copies' END, 'time_ns': other_ns},
            {'cause': 'launched_late', 'time_ns': late_ns},
            {'cause': CASE reason
                WHEN 'not_launched' THEN 'launched_late'
                WHEN 'needs_it' THEN CASE WHEN held_by = 'input' AND NOT waits THEN 'input_ready_late' ELSE 'nothing_left' END
                WHEN 'lost' THEN 'unknown'
                ELSE reason
            END, 'time_ns': time_ns - stream_ns - other_ns - late_ns}
        ], recursive := TRUE),
        reason
    FROM divided
),
named AS (
    SELECT *, CASE WHEN cause IN ('nothing_left', 'unknown') THEN next_op_id ELSE after_op_id END AS named_op_id
    FROM caused WHERE time_ns > 0
),
-- few of all that ran, looked up once
ops AS MATERIALIZED (
    SELECT op_id, stream, name, start_ns - start_local_ns AS shift_ns, launch_start_local_ns
    FROM device_ops
    WHERE timeline = 'gpu' AND op_id IN (SELECT op_id FROM named UNION SELECT named_op_id FROM named)
)
SELECT
    c.rank, c.step, k.call_id, c.op_id,
    coalesce(o.shift_ns, k.start_ns - k.start_local_ns) + c.from_ns AS start_ns,
    c.whole_ns AS duration_ns,
    c.cause,
    CASE c.cause
        WHEN 'same_stream' THEN 'stream ' || o.stream
        WHEN 'launched_late' THEN CASE
            WHEN c.reason = 'not_launched' THEN 'the compute that follows'
            WHEN c.held_by = 'launch' THEN 'its own launch'
            ELSE 'queued behind ' || coalesce(q.op, n.name)
        END
        WHEN 'input_ready_late' THEN coalesce(q.op, n.name)
        WHEN 'nothing_left' THEN n.name
        WHEN 'unknown' THEN CASE
            WHEN c.op_id < 0 THEN 'no GPU'
            WHEN c.reason = 'lost' THEN 'what was launched has no record'
            WHEN c.next_op_id IS NULL THEN 'no compute follows'
            WHEN n.launch_start_local_ns IS NULL THEN 'no launch of the compute that follows'
            ELSE 'what the compute that follows waits for'
        END
    END AS cause_detail,
    CAST(c.time_ns AS BIGINT) AS time_ns
FROM named AS c
LEFT JOIN ops AS o ON o.op_id = c.op_id
LEFT JOIN ops AS n ON n.op_id = c.named_op_id
LEFT JOIN calls AS q ON q.op_id = c.after_op_id
LEFT JOIN calls AS k ON k.op_id = c.op_id
