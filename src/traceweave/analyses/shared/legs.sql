-- shared: legs | a rank's way to each collective, from the end of the one that last made the same ranks even
-- grain: one row per rank and collective
-- needs: ref('arrivals')
-- param: queued_ns
-- column: collective_id BIGINT | this and the following as in arrivals
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it issued the collective
-- column: group_id INTEGER | process group
-- column: pair INTEGER[] | the two ranks of a send_recv
-- column: is_last BOOLEAN | this rank arrived last
-- column: is_late BOOLEAN | the clocks resolve who did, and it counts
-- column: delay_ns BIGINT | from the start of the last but one to that of the last rank
-- column: waiting_ranks BIGINT | ranks that waited for the last one
-- column: first_id BIGINT | the first collective since the ranks were even
-- column: previous_id BIGINT | the one that made them so; -1: none is recorded
-- column: from_ns BIGINT | its end; of -1 the start of the first. Rank's own clock
-- column: ended_ns BIGINT | the same end, common clock; 0: none is recorded, or it does not make ranks wait for all others
-- column: start_ns BIGINT | start of this collective, rank's own clock
WITH
-- Totals are joined one at a time: of two at once DuckDB may take the pairs of a rank first, billions of them.
begun AS MATERIALIZED (
    SELECT a.*, s.compute_ns AS computed_ns
    FROM {{ ref('arrivals') }} AS a JOIN {{ ref('worked_until') }} AS s ON s.rank = a.rank AND s.at_ns = a.own_start_ns
),
-- from the end of the previous collective among the same ranks to the start of this one
between AS MATERIALIZED (
    SELECT
        a.*,
        lag(a.collective_id) OVER by_start AS before_id,
        lag(a.own_end_ns) OVER by_start AS before_ns,
        -- who waits for nobody is done when it pleases
        lag(CASE WHEN NOT a.has_root THEN a.end_ns END) OVER by_start AS before_end_ns,
        lag(2 * (z.compute_ns - a.computed_ns) > a.duration_ns) OVER by_start AS is_overlapped
    FROM begun AS a JOIN {{ ref('worked_until') }} AS z ON z.rank = a.rank AND z.at_ns = a.own_end_ns
    WINDOW by_start AS (PARTITION BY a.rank, a.group_id, a.pair ORDER BY a.own_start_ns, a.collective_id)
),
-- Where the others computed on during the previous collective, or had this one queued behind it, it did not bring the
-- ranks together: who was behind before it still is, and what holds that rank up is older.
carried AS (
    SELECT collective_id, bool_and(is_overlapped OR own_start_ns - before_ns <= {{ param('queued_ns') }}) AS is_carried
    FROM between
    WHERE NOT is_last
    GROUP BY collective_id
)
SELECT
    l.collective_id, l.rank, l.step, l.group_id, l.pair, l.is_last, l.counts AND l.last_is_known AS is_late, l.delay_ns, l.waiting_ranks,
    last_value(CASE WHEN c.is_carried IS NOT TRUE THEN l.collective_id END IGNORE NULLS) OVER so_far AS first_id,
    last_value(CASE WHEN c.is_carried IS NOT TRUE THEN coalesce(l.before_id, -1) END IGNORE NULLS) OVER so_far AS previous_id,
    last_value(CASE WHEN c.is_carried IS NOT TRUE THEN coalesce(l.before_ns, l.own_start_ns) END IGNORE NULLS) OVER so_far AS from_ns,
    last_value(CASE WHEN c.is_carried IS NOT TRUE THEN coalesce(l.before_end_ns, 0) END IGNORE NULLS) OVER so_far AS ended_ns,
    l.own_start_ns AS start_ns
FROM between AS l LEFT JOIN carried AS c USING (collective_id)
WINDOW so_far AS (
    PARTITION BY l.rank, l.group_id, l.pair ORDER BY l.own_start_ns, l.collective_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
)
