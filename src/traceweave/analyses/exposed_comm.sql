-- analysis: exposed_comm | time of each collective that no compute hides, split into waiting and transfer
-- answers: Which collectives cost time that no compute hides, is it waiting or transfer, and which rank was late?
-- topic: communication
-- grain: one row per rank and collective
-- needs: collectives
-- page: table-stragglers
-- param: queued_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it was issued; NULL outside any step
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group; NULL if it could not be assigned to one
-- column: bytes BIGINT | size S as nccl-tests defines it; NULL if the trace does not say
-- column: collective_id BIGINT | the same value on all ranks of one instance; NULL if unmatched
-- column: start_ns BIGINT | start, common clock
-- column: duration_ns BIGINT | length, waiting included
-- column: wait_ns BIGINT | as in collective_waits; where no clock tells that, its duration minus the shortest over the ranks; the rest of duration_ns is transfer; NULL if no other rank was seen, or if the operation does not synchronize its ranks and its root is not known
-- column: exposed_ns BIGINT | time of it in which no compute ran on the rank
-- column: exposed_wait_ns BIGINT | of its first wait_ns; NULL like it
-- column: exposed_transfer_ns BIGINT | of the rest, the transfer; NULL like it, and where a member of the group is not seen, or comes later than the one it waits for: the rest may be waiting for that
-- column: late_rank INTEGER | last_rank of collective_instances where last_is_known, or, if that had been held up in another group, the rank that its lateness goes back to (stragglers); NULL if none did, or if it is this one
-- column: late_ns BIGINT | of the wait without compute, the part from the start of the last but one (of the last that late_rank did not hold up) to that of the last; NULL if there is none
-- column: is_staged BOOLEAN | a send or recv of a pipeline, or a collective over several of its stages: there the schedule makes ranks wait. Messages round a ring, between one rank and others that know no other, or of a group that is for something else by name (context parallelism), are not of a pipeline
-- column: call_id BIGINT | as in collectives
-- main: rank, step, op, group_id, bytes, duration_ns, exposed_ns, exposed_wait_ns, exposed_transfer_ns, late_rank, late_ns
-- order: exposed_ns DESC, start_ns, rank, op, group_id NULLS LAST
-- caveat: waiting ends when the last rank arrives, by the common clock; where the clocks of the ranks are not tied, by the shortest duration over the ranks, which may itself include waiting, and is too short where ranks are not done at the same time. late_ns is NULL below the clock resolution.
-- caveat: collectives that run at the same time on a rank are each counted in full, late_ns apart, which counts every moment once; breakdown counts all time once.
-- caveat: broadcast, reduce, gather and scatter may end on one rank before another begins. They are split where the root is known (root of collectives): all others of a broadcast or scatter wait for it, and the root of a reduce or gather for all others.
WITH staged AS (
    SELECT call_id, collective_id, rank, op
    FROM collectives
    WHERE op IN ('send', 'recv') AND (group_id IS NULL OR group_id IN (SELECT group_id FROM tw_pipelines()))
),
stages AS (
    SELECT DISTINCT a.rank, b.rank AS peer
    FROM staged AS a JOIN staged AS b USING (collective_id)
    WHERE a.op = 'send' AND b.op = 'recv'
),
spanning AS (
    SELECT DISTINCT g.group_id
    FROM groups AS g JOIN stages AS s ON list_contains(g.ranks, s.rank) AND list_contains(g.ranks, s.peer)
),
calls AS MATERIALIZED (
    SELECT
        k.call_id,
        k.rank,
        k.step,
        k.op,
        k.group_id,
        k.bytes,
        k.collective_id,
        k.start_ns,
        k.start_local_ns,
        k.duration_ns,
        k.start_ns + s.wait_ns AS waited_until_ns,
        s.is_whole,
        i.awaited_ns,
        coalesce(o.since_ns, i.awaited_ns - i.last_delay_ns) AS second_start_ns,
        i.last_rank,
        coalesce(o.origin, i.last_rank) AS late_rank,
        coalesce(o.is_known, i.last_is_known) AS late_is_known
    FROM collectives AS k
    LEFT JOIN collective_instances AS i USING (collective_id)
    LEFT JOIN {{ ref('late_origins') }} AS o USING (collective_id)
    LEFT JOIN tw_split_calls() AS s ON s.call_id = k.call_id
),
-- a rank that waits in several collectives at once waits for the first of them: no moment is charged twice
charged AS (
    SELECT
        call_id,
        awaited_ns AS late_until_ns,
        least(
            greatest(
                start_ns,
                second_start_ns,
                max(awaited_ns) OVER (
                    PARTITION BY rank ORDER BY greatest(start_ns, second_start_ns), awaited_ns, call_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                )
            ),
            awaited_ns
        ) AS late_from_ns
    FROM calls
    WHERE late_is_known AND waited_until_ns > start_ns AND rank NOT IN (last_rank, late_rank)
),
-- on the rank's own clock, which hardly strays from the common one within a collective
edges AS MATERIALIZED (
    SELECT
        k.call_id AS id,
        k.rank,
        unnest([
            {'edge': 1, 'at_ns': k.start_local_ns},
            {'edge': 2, 'at_ns': k.start_local_ns + (k.waited_until_ns - k.start_ns)},
            {'edge': 3, 'at_ns': k.start_local_ns + (c.late_from_ns - k.start_ns)},
            {'edge': 4, 'at_ns': k.start_local_ns + (c.late_until_ns - k.start_ns)},
            {'edge': 5, 'at_ns': k.start_local_ns + k.duration_ns}
        ], recursive := TRUE)
    FROM calls AS k LEFT JOIN charged AS c USING (call_id)
),
ops AS NOT MATERIALIZED (
    FROM tw_own_ops()
),
-- time without compute up to each edge: only differences of it mean anything
measured AS (
    SELECT
        id AS call_id,
        any_value(at_ns - compute_ns) FILTER (WHERE edge = 1) AS start_free_ns,
        any_value(at_ns - compute_ns) FILTER (WHERE edge = 2) AS waited_free_ns,
        any_value(at_ns - compute_ns) FILTER (WHERE edge = 3) AS from_free_ns,
        any_value(at_ns - compute_ns) FILTER (WHERE edge = 4) AS until_free_ns,
        any_value(at_ns - compute_ns) FILTER (WHERE edge = 5) AS end_free_ns
    FROM tw_computed_until('ops', 'edges')
    GROUP BY id
)
SELECT
    k.rank,
    k.step,
    k.op,
    k.group_id,
    k.bytes,
    k.collective_id,
    k.start_ns,
    k.duration_ns,
    k.waited_until_ns - k.start_ns AS wait_ns,
    CAST(m.end_free_ns - m.start_free_ns AS BIGINT) AS exposed_ns,
    CAST(m.waited_free_ns - m.start_free_ns AS BIGINT) AS exposed_wait_ns,
    CASE WHEN k.is_whole THEN CAST(m.end_free_ns - m.waited_free_ns AS BIGINT) END AS exposed_transfer_ns,
    CASE WHEN m.until_free_ns IS NOT NULL THEN k.late_rank END AS late_rank,
    CAST(m.until_free_ns - m.from_free_ns AS BIGINT) AS late_ns,
    k.call_id IN (SELECT call_id FROM staged) OR k.group_id IN (SELECT group_id FROM spanning) AND k.group_id IS NOT NULL AS is_staged,
    k.call_id
FROM calls AS k JOIN measured AS m USING (call_id)
ORDER BY exposed_ns DESC, k.start_ns, k.rank, k.op, k.group_id NULLS LAST
