-- shared: partition | where every nanosecond of each rank's step went: what ran, and why nothing did
-- grain: one row per rank, step, state and cause with any time; the same without steps where step is NULL
-- within: rank
-- param: window
-- param: min_gap_ns
-- param: kernel_delay_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole span
-- column: state VARCHAR | as in accounting
-- column: cause VARCHAR | of 'idle' as in idle_causes; NULL of the others
-- column: time_ns BIGINT | how long: the rows of a rank and step add up to window_ns
-- column: gaps BIGINT | this and the following of 'idle', as in idle_causes
-- column: longest_ns BIGINT | longest of them
-- column: lasting_ns DOUBLE | how long the gap lasts that a moment of them lies in, on average
-- column: host_op VARCHAR | the host operation that covers most of them
-- column: host_op_ns BIGINT | time of the gaps that it covers
-- column: window_ns BIGINT | length of the window
-- column: timeline VARCHAR | 'gpu' or 'cpu'
WITH windows AS MATERIALIZED (
    FROM {{ ref('breakdown', window=param('window')) }}
),
states AS (
    UNPIVOT (
        SELECT
            rank, step, window_ns, timeline,
            compute_ns AS compute, exposed_transfer_ns AS transfer, exposed_wait_ns AS waiting, exposed_unsplit_ns AS communication, exposed_memory_ns AS copy
        FROM windows
    )
    ON compute, transfer, waiting, communication, copy
    INTO NAME state VALUE time_ns
),
-- those of queued ops summed up: there are too many of them from 1 us on
found AS MATERIALIZED (
    SELECT
        g.gap_id, g.rank, g.step, g.cause, g.pid, g.tid, g.start_ns, g.end_ns, g.gaps, g.gaps_ns, g.longest_ns
    FROM tw_gaps({{ param('window') }}, 'device', {{ param('min_gap_ns') }}, {{ param('kernel_delay_ns') }}, 'summed') AS g
),
-- what was launched needed nothing of the host any more
hosted AS MATERIALIZED (
    SELECT gap_id, rank, pid, tid, start_ns, end_ns
    FROM found
    WHERE cause NOT IN (SELECT cause FROM tw_gap_causes() WHERE whose = 'device')
),
hosts AS (
    SELECT rank, step, cause, host_op, CAST(sum(host_op_ns) AS BIGINT) AS host_op_ns
    FROM found JOIN tw_gap_hosts('hosted') USING (gap_id)
    GROUP BY rank, step, cause, host_op
    QUALIFY row_number() OVER (PARTITION BY rank, step, cause ORDER BY sum(host_op_ns) DESC, host_op) = 1
),
summed AS (
    SELECT
        rank,
        step,
        cause,
        sum(gaps_ns) AS gaps_ns,
        sum(sum(gaps_ns)) OVER (PARTITION BY rank, step) AS all_ns,
        CAST(sum(gaps) AS BIGINT) AS gaps,
        max(longest_ns) AS longest_ns,
        sum(CAST(gaps_ns AS DOUBLE) * longest_ns) / sum(gaps_ns) AS lasting_ns
    FROM found
    GROUP BY rank, step, cause
),
-- a rank idles when all its devices do
caused AS MATERIALIZED (
    SELECT
        w.rank, w.step, s.cause, s.gaps, s.longest_ns, s.lasting_ns,
        CAST(s.gaps_ns * least(w.idle_ns, s.all_ns) // s.all_ns AS BIGINT) AS time_ns
    FROM windows AS w JOIN summed AS s ON s.rank = w.rank AND s.step IS NOT DISTINCT FROM w.step
),
idle AS (
    FROM caused
    UNION ALL BY NAME
    SELECT w.rank, w.step, 'short' AS cause, CAST(w.idle_ns - coalesce(sum(c.time_ns), 0) AS BIGINT) AS time_ns
    FROM windows AS w LEFT JOIN caused AS c ON c.rank = w.rank AND c.step IS NOT DISTINCT FROM w.step
    GROUP BY w.rank, w.step, w.idle_ns
    HAVING w.idle_ns > coalesce(sum(c.time_ns), 0)
)
SELECT rank, step, state, NULL AS cause, time_ns, NULL AS gaps, NULL AS longest_ns, NULL AS lasting_ns, NULL AS host_op, NULL AS host_op_ns, window_ns, timeline
FROM states
WHERE time_ns > 0
UNION ALL
SELECT i.rank, i.step, 'idle', i.cause, i.time_ns, i.gaps, i.longest_ns, i.lasting_ns, h.host_op, h.host_op_ns, w.window_ns, w.timeline
FROM idle AS i
JOIN windows AS w ON w.rank = i.rank AND w.step IS NOT DISTINCT FROM i.step
LEFT JOIN hosts AS h ON h.rank = i.rank AND h.step IS NOT DISTINCT FROM i.step AND h.cause = i.cause
