-- analysis: kernel_types | how long each combination of compute, communication and copies ran at the same time
-- answers: How much of the time is pure compute, pure communication, pure copying, or two or three of them at once?
-- topic: time
-- grain: one row per rank, step and combination that occurs; step is NULL for the whole span of the rank
-- within: rank
-- param: window
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole span
-- column: kernel_type VARCHAR | what ran, joined by ' overlapping ': 'compute', 'communication', 'memory'; 'idle': nothing
-- column: time_ns BIGINT | time in which exactly these ran; over the rows of a rank and step it adds up to window_ns
-- column: window_ns BIGINT | length of the window
-- column: window_share DOUBLE | time_ns / window_ns, 0 to 1
-- column: busy_share DOUBLE | time_ns / time in which anything ran, 0 to 1; NULL for 'idle'
-- column: timeline VARCHAR | 'gpu', or 'cpu' for a rank without GPU ops
-- column: note VARCHAR | why the window is another one; NULL if there is nothing to say
-- order: rank, step NULLS FIRST, time_ns DESC, kernel_type
-- caveat: HolisticTraceAnalysis' kernel breakdown is the sum of time_ns over the ranks with window = 'span', per combination.
-- caveat: all devices and streams of a rank count as one timeline.
WITH measured AS (
    -- c, n, m: compute, communication (network), memory; two letters: either of the two
    SELECT
        rank,
        timeline,
        step,
        note,
        window_ns,
        compute_ns AS c_ns,
        comm_ns AS n_ns,
        memory_ns AS m_ns,
        busy_ns AS cn_ns,
        compute_memory_ns AS cm_ns,
        comm_memory_ns AS nm_ns,
        any_ns
    FROM tw_window_times({{ param('window') }})
),
-- inclusion and exclusion: exactly one set is the whole without the union of the others, and so on
combined AS (
    SELECT
        rank,
        timeline,
        step,
        note,
        window_ns,
        any_ns,
        unnest([
            {'kernel_type': 'compute', 'time_ns': any_ns - nm_ns},
            {'kernel_type': 'communication', 'time_ns': any_ns - cm_ns},
            {'kernel_type': 'memory', 'time_ns': any_ns - cn_ns},
            {'kernel_type': 'compute overlapping communication', 'time_ns': cm_ns + nm_ns - m_ns - any_ns},
            {'kernel_type': 'compute overlapping memory', 'time_ns': cn_ns + nm_ns - n_ns - any_ns},
            {'kernel_type': 'communication overlapping memory', 'time_ns': cn_ns + cm_ns - c_ns - any_ns},
            {
                'kernel_type': 'compute overlapping communication overlapping memory',
                'time_ns': any_ns - cn_ns - cm_ns - nm_ns + c_ns + n_ns + m_ns
            },
            {'kernel_type': 'idle', 'time_ns': window_ns - any_ns}
        ], recursive := TRUE)
    FROM measured
)
SELECT
    rank,
    step,
    kernel_type,
    time_ns,
    window_ns,
    tw_ratio(time_ns, window_ns) AS window_share,
    CASE WHEN kernel_type <> 'idle' THEN tw_ratio(time_ns, any_ns) END AS busy_share,
    timeline,
    note
FROM combined
WHERE time_ns > 0
ORDER BY rank, step NULLS FIRST, time_ns DESC, kernel_type
