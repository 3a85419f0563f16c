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
-- column: is_unknown BOOLEAN | it is in a step, or of a rank, that the recording's verdict leaves out
-- column: counts BOOLEAN | neither this call nor that of the last rank is unknown: only then it is a wait of a rank, or because of one
-- column: counted_ns BIGINT | of wait_ns, the end of it, up to the last arrival, what no earlier such wait of the rank counts: no moment counts twice. Waits below the clock resolution are apart
-- column: caused_ns BIGINT | of the last rank: how long others waited for it alone, the sum of what of their counted_ns is within late_ns; NULL of others
WITH waits AS MATERIALIZED (
    SELECT
        w.* REPLACE (
            CASE WHEN i.root IS NULL OR w.is_last THEN w.start_ns
                ELSE i.awaited_ns - i.wait_total_ns // i.waiting_ranks END AS start_ns
        ),
        i.root IS NOT NULL AS has_root, tw_is_unknown(w.rank, w.step) AS is_unknown, i.awaited_ns, i.last_is_known, i.below_resolution, i.last_delay_ns AS delay_ns, i.waiting_ranks,
        CASE WHEN w.is_last AND i.last_delay_ns > 0 THEN i.last_delay_ns END AS late_ns
    FROM collective_waits AS w JOIN collective_instances AS i USING (collective_id)
    WHERE i.ranks_seen > 1 AND NOT i.is_buffered AND (i.root IS NULL OR i.waiting_ranks > 0 AND (w.is_last OR w.wait_ns > 0))
),
instances AS (
    SELECT
        collective_id,
        min(duration_ns) AS shortest_ns,
        min(duration_ns, 2)[2] AS next_ns,
        CASE WHEN any_value(op) = 'send_recv' THEN list(rank ORDER BY rank) END AS pair,
        bool_or(is_last AND NOT is_unknown) AS last_counts
    FROM waits
    GROUP BY collective_id
),
judged AS (
    SELECT
        w.*, i.pair, NOT w.is_unknown AND i.last_counts AS counts,
        w.duration_ns = i.shortest_ns AND i.shortest_ns < i.next_ns AS is_shortest
    FROM waits AS w JOIN instances AS i USING (collective_id)
),
-- a rank that waits in several collectives at once waits for the first of them, as in exposed_comm
counted AS (
    SELECT
        *,
        CASE WHEN counts THEN tw_added_ns(
            start_local_ns, start_local_ns + wait_ns, max(start_local_ns + wait_ns) OVER earlier
        ) ELSE 0 END AS counted_ns
    FROM judged
    WINDOW earlier AS (
        PARTITION BY rank, below_resolution, counts
        ORDER BY start_local_ns, start_local_ns + wait_ns, collective_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT
    collective_id, rank, op, group_id, pair, step, start_ns, end_ns,
    start_local_ns AS own_start_ns, start_local_ns + duration_ns AS own_end_ns, duration_ns,
    wait_ns, wait_free_ns, is_last, is_shortest, last_rank, awaited_ns, last_is_known, has_root, below_resolution, delay_ns, waiting_ranks,
    late_ns, is_unknown, counts, counted_ns,
    CASE WHEN late_ns IS NOT NULL THEN coalesce(CAST(
        sum(least(counted_ns, delay_ns)) FILTER (WHERE NOT is_last) OVER (PARTITION BY collective_id) AS BIGINT
    ), 0) END AS caused_ns
FROM counted
