-- analysis: overlap_of | how long any two selections of operations ran at once, and each without the other
-- answers: For how much of each step do these kernels run beside those?
-- topic: communication
-- grain: one row per rank and step; one row per rank without steps
-- param: window
-- param: a
-- param: b
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole span
-- column: window_ns BIGINT | length of the window: the sum of the next four
-- column: only_a_ns BIGINT | time in which operations of a ran, and none of b
-- column: only_b_ns BIGINT | the other way round
-- column: both_ns BIGINT | time in which operations of both ran
-- column: neither_ns BIGINT | time in which none of them did
-- column: hidden_share DOUBLE | both_ns / time in which b ran, 0 to 1; NULL if it did not
-- order: rank, step NULLS FIRST
-- caveat: a collective counts from its start, waiting included; in two halves, to the end of the second.
-- caveat: operations that both selections mean run in both.
WITH windows AS MATERIALIZED (
    SELECT rank, step, start_ns, end_ns FROM tw_windows({{ param('window') }})
),
edges AS (
    SELECT rank, start_ns AS at_ns FROM windows
    UNION
    SELECT rank, end_ns FROM windows
),
ops AS (
    SELECT rank, CASE side WHEN 'a' THEN 'compute' ELSE 'communication' END AS category, start_ns, end_ns
    FROM {{ ref('selections') }}
),
totals AS MATERIALIZED (
    SELECT rank, at_ns, compute_ns AS a_ns, comm_ns AS b_ns, busy_ns AS any_ns FROM tw_busy_until('ops', 'edges')
),
ran AS (
    SELECT
        w.rank, w.step, w.end_ns - w.start_ns AS window_ns,
        z.a_ns - f.a_ns AS a_ns, z.b_ns - f.b_ns AS b_ns, z.any_ns - f.any_ns AS any_ns
    FROM windows AS w
    JOIN totals AS f ON f.rank = w.rank AND f.at_ns = w.start_ns
    JOIN totals AS z ON z.rank = w.rank AND z.at_ns = w.end_ns
)
SELECT
    rank, step, window_ns,
    any_ns - b_ns AS only_a_ns,
    any_ns - a_ns AS only_b_ns,
    a_ns + b_ns - any_ns AS both_ns,
    window_ns - any_ns AS neither_ns,
    tw_ratio(a_ns + b_ns - any_ns, b_ns) AS hidden_share
FROM ran
ORDER BY rank, step NULLS FIRST
