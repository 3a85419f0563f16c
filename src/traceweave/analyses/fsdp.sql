-- analysis: fsdp | each all-gather and reduce-scatter of sharded data parallelism: how early it came, how long compute stalled for it
-- answers: Are the parameters gathered before they are needed, and are the gradients scattered while compute goes on?
-- topic: parallelism
-- grain: one row per rank, step and all-gather or reduce-scatter of a sharded group
-- needs: collectives, groups
-- within: rank
-- param: group_id BIGINT = NULL | treat this group as sharded; NULL: all groups that the traces show to be data parallel and that do both operations
-- param: release_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it was issued; NULL outside any step
-- column: group_id INTEGER | process group
-- column: op VARCHAR | 'all_gather' or 'reduce_scatter'
-- column: unit BIGINT | place among the operations of this kind, group and pass of the step, from 1, in the order of their start
-- column: pass VARCHAR | 'backward' if the thread that issued it also scatters gradients, 'forward' if not; NULL if every thread does, or if it is not recorded
-- column: bytes BIGINT | size of the whole unit; NULL if the trace does not say
-- column: asked_ns BIGINT | when the host asked for it, common clock; NULL if not recorded
-- column: start_ns BIGINT | start on this rank, common clock
-- column: end_ns BIGINT | end
-- column: duration_ns BIGINT | length, waiting for other ranks included
-- column: wait_ns BIGINT | of that, the time until the last rank had started; NULL if no other rank was seen
-- column: exposed_ns BIGINT | of the duration, the time in which no compute ran
-- column: exposed_share DOUBLE | exposed_ns / duration_ns, 0 to 1; NULL if that is 0
-- column: blocked_ns BIGINT | of that, the last stretch up to its end, if compute resumed right after it: compute stalled for it
-- column: first_use_ns BIGINT | of an all-gather: start of the first op that waited for it, common clock; NULL: see note
-- column: prefetch_ns BIGINT | first_use_ns - start_ns: how long before its first use it started
-- column: slack_ns BIGINT | first_use_ns - end_ns: how long before its first use it ended; near 0 where compute waited for it
-- column: note VARCHAR | why a value is NULL
-- main: rank, step, group_id, op, unit, pass, bytes, duration_ns, wait_ns, exposed_ns, blocked_ns, slack_ns, note
-- order: rank, step NULLS FIRST, group_id NULLS LAST, start_ns, op
-- caveat: needs a group that both all-gathers and reduce-scatters and that is used for data parallelism, as groups says in its columns ops and used_for; group_id names another.
-- caveat: the first use of an all-gather is the first op of another stream that waited for it, or for what was behind it on its stream, as replay has it: what is waited for together is used together. Where a wait was not recorded, slack_ns is too large.
-- caveat: a group that gathers and scatters in the optimizer, as ZeRO does, is listed like any other; 'unit' then counts its buckets.
WITH roles AS MATERIALIZED (
    SELECT * FROM tw_group_roles({{ param('group_id') }}, 'dp')
),
issues AS MATERIALIZED (
    SELECT * FROM tw_collective_issue()
),
units AS MATERIALIZED (
    SELECT
        k.call_id,
        k.rank,
        k.step,
        k.group_id,
        k.op,
        k.bytes,
        k.collective_id,
        k.gpu_op_id,
        k.start_ns,
        k.end_ns,
        k.duration_ns,
        i.tid,
        i.asked_ns,
        i.asked_until_ns,
        bool_or(k.op = 'all_gather') OVER whole AND bool_or(k.op = 'reduce_scatter') OVER whole AS is_sharded
    FROM collectives AS k
    JOIN roles AS r USING (group_id)
    LEFT JOIN issues AS i USING (call_id)
    WHERE k.op IN ('all_gather', 'reduce_scatter')
        AND CASE WHEN {{ param('group_id') }} IS NULL THEN r.used_for = 'dp' ELSE k.group_id = {{ param('group_id') }} END
        AND (k.gpu_op_id IS NOT NULL OR k.rank IN (SELECT rank FROM tw_timelines WHERE timeline = 'cpu'))
    WINDOW whole AS (PARTITION BY k.group_id)
),
-- gradients are scattered in the backward pass, by autograd's thread if that is another one
threads AS (
    SELECT rank, tid, bool_or(op = 'reduce_scatter') AS scatters
    FROM units
    WHERE tid IS NOT NULL
    GROUP BY rank, tid
),
split AS (
    SELECT rank FROM threads GROUP BY rank HAVING bool_or(scatters) AND NOT bool_and(scatters)
),
passed AS MATERIALIZED (
    SELECT
        u.*,
        CASE WHEN u.rank IN (SELECT rank FROM split) THEN CASE WHEN t.scatters THEN 'backward' WHEN NOT t.scatters THEN 'forward' END END AS pass
    FROM units AS u LEFT JOIN threads AS t USING (rank, tid)
    WHERE u.is_sharded
)
SELECT
    p.rank,
    p.step,
    p.group_id,
    p.op,
    row_number() OVER (PARTITION BY p.rank, p.step, p.group_id, p.op, p.pass ORDER BY p.start_ns, p.call_id) AS unit,
    p.pass,
    p.bytes,
    p.asked_ns,
    p.start_ns,
    p.end_ns,
    p.duration_ns,
    w.wait_ns,
    e.exposed_ns,
    tw_ratio(e.exposed_ns, p.duration_ns) AS exposed_share,
    e.blocked_ns,
    u.start_ns AS first_use_ns,
    u.start_ns - p.start_ns AS prefetch_ns,
    u.start_ns - p.end_ns AS slack_ns,
    nullif(concat_ws('; ',
        CASE WHEN p.tid IS NULL THEN 'issued outside the trace'
             WHEN p.pass IS NULL THEN 'no thread gathers only: forward and backward cannot be separated' END,
        CASE WHEN p.op = 'all_gather' AND u.op_id IS NULL THEN 'nothing is known to wait for it' END,
        CASE WHEN p.bytes IS NULL THEN 'the trace does not say how many bytes' END,
        CASE WHEN w.rank IS NULL THEN 'seen on one rank only' END
    ), '') AS note
FROM passed AS p
LEFT JOIN tw_collective_exposure('passed', {{ param('release_ns') }}) AS e USING (call_id)
LEFT JOIN tw_first_uses AS f ON f.op_id = p.gpu_op_id AND p.op = 'all_gather'
LEFT JOIN gpu_ops AS u ON u.op_id = f.used_by
LEFT JOIN tw_shared_waits() AS w ON w.collective_id = p.collective_id AND w.rank = p.rank
ORDER BY p.rank, p.step NULLS FIRST, p.group_id NULLS LAST, p.start_ns, p.op
