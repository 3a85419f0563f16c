-- shared: arrivals | when each rank came to the collectives that it shares with another one, and who came last
-- grain: one row per rank and collective; none of messages that were buffered, for which nobody waited, and where a root is known only of those that waited, and the last one
-- needs: collective_instances, collective_waits
-- column: collective_id BIGINT | the instance
-- column: rank INTEGER | global rank
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group
-- column: pair INTEGER[] | the two ranks of a send_recv, for which the group alone does not say who takes part; NULL of others
-- column: step BIGINT | step in which this rank issued it
-- column: start_ns BIGINT | start, common clock; where a root is known the mean start of all that waited, who did not wait for each other
-- column: end_ns BIGINT | end, common clock
-- column: own_start_ns BIGINT | start, rank's own clock: what a rank did is measured on that
-- column: own_end_ns BIGINT | end, rank's own clock
-- column: duration_ns BIGINT | length
-- column: wait_ns BIGINT | as in collective_waits
-- column: wait_free_ns BIGINT | the wait without any clock
-- column: is_last BOOLEAN | this rank arrived last
-- column: is_shortest BOOLEAN | no other rank's duration was as short: late, judged without clocks
-- column: last_rank INTEGER | the rank that arrived last
-- column: awaited_ns BIGINT | its start, common clock
-- column: last_is_known BOOLEAN | the clocks resolve which rank came last
-- column: has_root BOOLEAN | its root is known
-- column: below_resolution BOOLEAN | the arrival skew is below the clock resolution
-- column: delay_ns BIGINT | from the start of the last but one to that of the last rank
-- column: waiting_ranks BIGINT | ranks that waited for the last one
-- column: late_ns BIGINT | delay_ns of the last rank; NULL of others, and where two came last together
-- column: caused_ns BIGINT | late_ns * waiting_ranks
WITH waits AS MATERIALIZED (
    SELECT
        w.* REPLACE (
            CASE WHEN i.root IS NULL OR w.is_last THEN w.start_ns
                ELSE i.awaited_ns - i.wait_total_ns // i.waiting_ranks END AS start_ns
        ),
        i.root IS NOT NULL AS has_root, i.awaited_ns, i.last_is_known, i.below_resolution, i.last_delay_ns AS delay_ns, i.waiting_ranks,
        CASE WHEN w.is_last AND i.last_delay_ns > 0 THEN i.last_delay_ns END AS late_ns
    FROM collective_waits AS w JOIN collective_instances AS i USING (collective_id)
    WHERE i.ranks_seen > 1 AND NOT i.is_buffered AND (i.root IS NULL OR i.waiting_ranks > 0 AND (w.is_last OR w.wait_ns > 0))
),
instances AS (
    SELECT
        collective_id,
        min(duration_ns) AS shortest_ns,
        min(duration_ns, 2)[2] AS next_ns,
        CASE WHEN any_value(op) = 'send_recv' THEN list(rank ORDER BY rank) END AS pair
    FROM waits
    GROUP BY collective_id
)
SELECT
    w.collective_id, w.rank, w.op, w.group_id, i.pair, w.step, w.start_ns, w.end_ns,
    w.start_local_ns AS own_start_ns, w.start_local_ns + w.duration_ns AS own_end_ns, w.duration_ns,
    w.wait_ns, w.wait_free_ns, w.is_last, w.duration_ns = i.shortest_ns AND i.shortest_ns < i.next_ns AS is_shortest,
    w.last_rank, w.awaited_ns, w.last_is_known, w.has_root, w.below_resolution, w.delay_ns, w.waiting_ranks,
    w.late_ns, w.late_ns * w.waiting_ranks AS caused_ns
FROM waits AS w JOIN instances AS i USING (collective_id)
