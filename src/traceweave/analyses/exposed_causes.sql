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
-- column: cause VARCHAR | 'other_ranks': it waited for them. 'same_stream': compute was queued before or behind it on its stream, launched already. 'blocked': the compute that follows was not launched, its thread waited in a synchronizing call. 'launched_late': that compute, or the collective, was launched or began later than it could. 'input_ready_late': it began when what it waits for ended, and the compute that follows waits for it. 'nothing_left': the same compute, or a copy ahead of it on its stream, waits for it, whenever its input came. 'copies': they started or ran before that compute on its stream. 'kernel_delay': that compute was launched and free to start, and did within 30 us. 'unknown': none of these is known
-- column: cause_detail VARCHAR | of 'same_stream' the stream; of 'launched_late' what was late; of 'input_ready_late' what it waited for; of 'nothing_left' what waited for it; of 'unknown' what is not known
-- column: time_ns BIGINT | exposed time of it for this cause, on the rank's own clock: the rows of a rank and step add up to exposed_comm_ns of breakdown
-- column: call_id BIGINT | as in collectives
-- main: rank, step, op, group_id, bytes, stream, cause, cause_detail, time_ns
-- order: time_ns DESC, rank, start_ns, step NULLS FIRST, cause
-- caveat: of communication that runs at the same time on a rank, each moment is of the call that began first; exposed_comm counts all of them in full.
-- caveat: order on a stream keeps compute and a call apart; whether one also needs the other's data, no trace says.
-- caveat: that one waits for the other is known as in replay: by events (cudaStreamWaitEvent), or by times, where it, or what is ahead of it on its stream, had been launched for 30 us or more and began within 30 us of the other's end.
-- caveat: where other ranks are not seen, waiting for them is not known: it is among the other causes.
-- caveat: a collective that waited for other ranks does not begin earlier if it is launched earlier: what of it is exposed after that is 'nothing_left'.
-- caveat: without a GPU no launches and streams are recorded: what is no waiting is 'unknown'.
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
    t.call_id
FROM {{ ref('exposed_stretches') }} AS t LEFT JOIN collectives AS k USING (call_id)
GROUP BY t.rank, t.step, t.op_id, t.call_id, t.cause
ORDER BY time_ns DESC, t.rank, start_ns, t.step NULLS FIRST, t.cause
