-- analysis: idle_causes | idle time of each rank and step by cause
-- answers: How much time does each cause of idling take, and what does the host do at that time?
-- topic: time
-- grain: one row per rank, step and cause that occurs; step is NULL for the whole span of the rank
-- page: table-gap-causes
-- within: rank
-- param: window
-- param: min_gap_ns
-- param: kernel_delay_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole span
-- column: cause VARCHAR | cause of the gaps, as gaps has it; 'short' for gaps shorter than min_gap_ns
-- column: idle_ns BIGINT | time in which nothing ran for this cause; over the causes it adds up to idle_ns of breakdown
-- column: gaps BIGINT | gaps, or parts of gaps, with this cause; NULL for 'short'
-- column: longest_ns BIGINT | longest of them; NULL for 'short'
-- column: lasting_ns DOUBLE | how long the gap lasts that a moment of them lies in, on average; NULL for 'short'
-- column: window_ns BIGINT | length of the window
-- column: window_share DOUBLE | idle_ns / window_ns, 0 to 1
-- column: host_op VARCHAR | the host operation that covers most of the time of these gaps; NULL if nothing covers any of them, and for 'short'
-- column: host_op_ns BIGINT | time of the gaps that host_op covers
-- column: timeline VARCHAR | 'gpu', or 'cpu' for a rank without GPU ops
-- order: rank, step NULLS FIRST, idle_ns DESC, cause
-- caveat: a rank with several devices idles when all of them do: the gaps of its devices are scaled down to that time.
SELECT
    rank,
    step,
    cause,
    time_ns AS idle_ns,
    gaps,
    longest_ns,
    lasting_ns,
    window_ns,
    tw_ratio(time_ns, window_ns) AS window_share,
    host_op,
    host_op_ns,
    timeline
FROM {{ ref('partition') }}
WHERE state = 'idle'
ORDER BY rank, step NULLS FIRST, idle_ns DESC, cause
