-- analysis: exposed_causes | why no compute hides the exposed time of each collective: a partition by cause
-- answers: Why is communication not hidden: a shared stream, a late launch, an input that came just before, nothing else to run, other ranks?
-- topic: communication
-- grain: one row per rank, collective, step in which it ran, and cause
-- param: window
-- param: release_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in whose window it was exposed; NULL: the rank's whole span
-- column: op VARCHAR | which operation; 'unknown' where a communication kernel is no recognized collective
-- column: group_id INTEGER | process group; NULL if it could not be assigned to one
-- column: bytes BIGINT | size S as nccl-tests defines it; NULL if the trace does not say
-- column: collective_id BIGINT | the same value on all ranks of one instance; NULL if unmatched
-- column: start_ns BIGINT | start, common clock
-- column: stream BIGINT | stream that it ran on; a host thread without a GPU
-- column: cause VARCHAR | 'other_ranks': it waited for them. 'same_stream': compute was queued before or behind it on its stream, launched already. 'blocked': the compute that follows was not launched, its thread waited in a synchronizing call. 'launched_late': that compute, or the collective, was launched or began later than it could. 'input_ready_late': it began when what it waits for ended, and the compute that follows waits for it. 'nothing_left': the same compute waits for it, whenever its input came. 'copies': they ran before that compute on its stream. 'kernel_delay': that compute was launched and free to start, and did within 30 us. 'unknown': none of these is known
-- column: cause_detail VARCHAR | of 'same_stream' the stream; of 'launched_late' what was late; of 'input_ready_late' what it waited for; of 'nothing_left' what waited for it; of 'unknown' what is not known
-- column: time_ns BIGINT | exposed time of it for this cause, on the rank's own clock: the rows of a rank and step add up to exposed_comm_ns of breakdown
-- column: call_id BIGINT | as in collectives
-- main: rank, step, op, group_id, bytes, stream, cause, cause_detail, time_ns
-- order: time_ns DESC, rank, start_ns, step NULLS FIRST, cause
-- caveat: of communication that runs at the same time on a rank, each moment is of the call that began first; exposed_comm counts all of them in full.
-- caveat: order on a stream keeps compute and a call apart; whether one also needs the other's data, no trace says.
-- caveat: that compute waits for a collective is known by events (cudaStreamWaitEvent), or where it had been launched for 30 us or more and began within 30 us of its end; what a collective waited for, by events alone.
-- caveat: where other ranks are not seen, waiting for them is not known: it is among the other causes.
-- caveat: a collective that waited for other ranks does not begin earlier if it is launched earlier: what of it is exposed after that is 'nothing_left'.
-- caveat: without a GPU no launches and streams are recorded: what is no waiting is 'unknown'.
WITH windows AS MATERIALIZED (
    SELECT rank, step, start_ns, end_ns, row_number() OVER (PARTITION BY rank ORDER BY start_ns) AS number FROM tw_windows({{ param('window') }})
),
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
            {'reason': 'other_ranks', 'from_ns': p.start_ns, 'until_ns': least(p.end_ns, k.waited_until_ns)},
            {'reason': p.reason, 'from_ns': greatest(p.start_ns, k.waited_until_ns), 'until_ns': p.end_ns}
        ], recursive := true)
    FROM (SELECT p.*, k.waited_until_ns FROM tw_exposed_pieces AS p LEFT JOIN calls AS k USING (op_id)) AS p
    LEFT JOIN LATERAL (SELECT coalesce(p.waited_until_ns, p.start_ns) AS waited_until_ns) AS k ON TRUE
),
placed AS (
    SELECT s.*, coalesce(a.number, 1) AS first, coalesce(z.number, 0) AS last
    FROM (FROM stretches WHERE from_ns < until_ns) AS s
    ASOF LEFT JOIN windows AS a ON a.rank = s.rank AND s.from_ns >= a.start_ns
    ASOF LEFT JOIN windows AS z ON z.rank = s.rank AND s.until_ns > z.start_ns
),
cut AS MATERIALIZED (
    SELECT p.rank, w.step, p.op_id, p.reason, p.next_op_id, p.other_share, tw_shared_ns(p.from_ns, p.until_ns, w.start_ns, w.end_ns) AS time_ns
    FROM (SELECT *, unnest(range(first, last + 1)) AS number FROM placed) AS p JOIN windows AS w USING (rank, number)
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
        CASE WHEN reason IN ('not_launched', 'kernel_delay', 'unknown') THEN CAST(round((time_ns - stream_ns) * other_share) AS BIGINT) ELSE 0 END AS other_ns,
        CASE WHEN reason = 'needs_it' THEN CAST(floor((time_ns - stream_ns) * coalesce(s.of_needed, 0)) AS BIGINT) ELSE 0 END AS late_ns
    FROM cut AS c LEFT JOIN shares AS s USING (op_id)
    WHERE time_ns > 0
),
caused AS (
    SELECT
        rank, step, op_id, next_op_id, after_op_id, held_by,
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
        ], recursive := true),
        reason
    FROM divided
),
told AS (
    SELECT
        c.rank, c.step, c.op_id, c.cause, c.time_ns,
        CASE c.cause
            WHEN 'same_stream' THEN 'stream ' || o.stream
            WHEN 'launched_late' THEN CASE
                WHEN c.reason = 'not_launched' THEN 'the compute that follows'
                WHEN c.held_by = 'launch' THEN 'its own launch'
                ELSE 'queued behind ' || coalesce(q.op, a.name)
            END
            WHEN 'input_ready_late' THEN coalesce(q.op, a.name)
            WHEN 'nothing_left' THEN n.name
            WHEN 'unknown' THEN CASE
                WHEN c.op_id < 0 THEN 'no GPU'
                WHEN c.reason = 'lost' THEN 'what was launched has no record'
                WHEN c.next_op_id IS NULL THEN 'no compute follows'
                WHEN n.launch_start_local_ns IS NULL THEN 'no launch of the compute that follows'
                ELSE 'what the compute that follows waits for'
            END
        END AS cause_detail
    FROM (FROM caused WHERE time_ns > 0) AS c
    LEFT JOIN device_ops AS o ON o.op_id = c.op_id AND o.timeline = 'gpu'
    LEFT JOIN device_ops AS n ON n.op_id = c.next_op_id AND n.timeline = 'gpu'
    LEFT JOIN device_ops AS a ON a.op_id = c.after_op_id AND a.timeline = 'gpu'
    LEFT JOIN calls AS q ON q.op_id = c.after_op_id
)
SELECT
    t.rank,
    t.step,
    coalesce(any_value(k.op), 'unknown') AS op,
    any_value(k.group_id) AS group_id,
    any_value(k.bytes) AS bytes,
    any_value(k.collective_id) AS collective_id,
    any_value(k.start_ns) AS start_ns,
    any_value(k.stream) AS stream,
    t.cause,
    arg_max(t.cause_detail, (t.time_ns, t.cause_detail)) AS cause_detail,
    CAST(sum(t.time_ns) AS BIGINT) AS time_ns,
    any_value(k.call_id) AS call_id
FROM told AS t LEFT JOIN calls AS k USING (op_id)
GROUP BY t.rank, t.step, t.op_id, t.cause
ORDER BY time_ns DESC, t.rank, start_ns, t.step NULLS FIRST, t.cause
