-- analysis: kernel_types | how long each combination of compute, communication and copies ran at the same time
-- answers: How much of the time is pure compute, pure communication, pure copying, or two or three of them at once?
-- topic: time
-- grain: one row per rank, step and combination that occurs; step is NULL for the whole span of the rank
-- reads: device_ops, steps
-- param: window VARCHAR = 'device' | the stretch of time that is measured, as in breakdown
-- choice: window 'device' | from the step's first GPU op to the next step's first
-- choice: window 'host' | the step's range on the host
-- choice: window 'span' | from the rank's first op to the end of its last; step is NULL
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
WITH windows AS MATERIALIZED (
    SELECT rank, timeline, step, start_ns, end_ns, note FROM tw_windows($window)
),
edges AS (
    SELECT rank, start_ns AS at_ns FROM windows
    UNION
    SELECT rank, end_ns AS at_ns FROM windows
),
-- an edge is a mark without an end
marks AS (
    SELECT
        rank,
        start_ns AS at_ns,
        CASE WHEN category = 'compute' THEN end_ns END AS compute_end_ns,
        CASE WHEN category = 'communication' THEN end_ns END AS comm_end_ns,
        CASE WHEN category = 'memory' THEN end_ns END AS memory_end_ns,
        NULL AS edge_ns
    FROM device_ops
    UNION ALL
    SELECT rank, at_ns, NULL, NULL, NULL, at_ns AS edge_ns FROM edges
),
-- one sort of all ops, the edges among them, as in breakdown: intervals.sql says why it measures unions
swept AS (
    SELECT
        *,
        max(edge_ns) OVER before AS slot_from_ns,
        max(compute_end_ns) OVER before AS compute_until_ns,
        max(comm_end_ns) OVER before AS comm_until_ns,
        max(memory_end_ns) OVER before AS memory_until_ns
    FROM marks
    WINDOW before AS (
        PARTITION BY rank ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
-- c, n, m: compute, communication (network), memory; two letters: either of the two
slots AS (
    SELECT
        rank,
        slot_from_ns,
        max(edge_ns) AS edge_ns,
        max(CASE WHEN edge_ns IS NOT NULL THEN compute_until_ns END) AS c_until_ns,
        max(CASE WHEN edge_ns IS NOT NULL THEN comm_until_ns END) AS n_until_ns,
        max(CASE WHEN edge_ns IS NOT NULL THEN memory_until_ns END) AS m_until_ns,
        sum(tw_added_ns(at_ns, compute_end_ns, compute_until_ns)) AS c_ns,
        sum(tw_added_ns(at_ns, comm_end_ns, comm_until_ns)) AS n_ns,
        sum(tw_added_ns(at_ns, memory_end_ns, memory_until_ns)) AS m_ns,
        sum(tw_added_ns(at_ns, coalesce(compute_end_ns, comm_end_ns), greatest(compute_until_ns, comm_until_ns))) AS cn_ns,
        sum(tw_added_ns(at_ns, coalesce(compute_end_ns, memory_end_ns), greatest(compute_until_ns, memory_until_ns))) AS cm_ns,
        sum(tw_added_ns(at_ns, coalesce(comm_end_ns, memory_end_ns), greatest(comm_until_ns, memory_until_ns))) AS nm_ns,
        sum(tw_added_ns(
            at_ns,
            coalesce(compute_end_ns, comm_end_ns, memory_end_ns),
            greatest(compute_until_ns, comm_until_ns, memory_until_ns)
        )) AS any_ns
    FROM swept
    GROUP BY rank, slot_from_ns
),
-- length of every union from the beginning of the rank up to each edge
totals AS (
    SELECT
        rank,
        edge_ns,
        sum(c_ns) OVER until_here - tw_overhang_ns(c_until_ns, edge_ns) AS c_ns,
        sum(n_ns) OVER until_here - tw_overhang_ns(n_until_ns, edge_ns) AS n_ns,
        sum(m_ns) OVER until_here - tw_overhang_ns(m_until_ns, edge_ns) AS m_ns,
        sum(cn_ns) OVER until_here - tw_overhang_ns(greatest(c_until_ns, n_until_ns), edge_ns) AS cn_ns,
        sum(cm_ns) OVER until_here - tw_overhang_ns(greatest(c_until_ns, m_until_ns), edge_ns) AS cm_ns,
        sum(nm_ns) OVER until_here - tw_overhang_ns(greatest(n_until_ns, m_until_ns), edge_ns) AS nm_ns,
        sum(any_ns) OVER until_here
            - tw_overhang_ns(greatest(c_until_ns, n_until_ns, m_until_ns), edge_ns) AS any_ns
    FROM slots
    WINDOW until_here AS (
        PARTITION BY rank ORDER BY slot_from_ns NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),
measured AS (
    SELECT
        w.rank,
        w.timeline,
        w.step,
        w.note,
        w.start_ns,
        w.end_ns - w.start_ns AS window_ns,
        z.c_ns - a.c_ns AS c_ns,
        z.n_ns - a.n_ns AS n_ns,
        z.m_ns - a.m_ns AS m_ns,
        z.cn_ns - a.cn_ns AS cn_ns,
        z.cm_ns - a.cm_ns AS cm_ns,
        z.nm_ns - a.nm_ns AS nm_ns,
        z.any_ns - a.any_ns AS any_ns
    FROM windows AS w
    JOIN totals AS a ON a.rank = w.rank AND a.edge_ns = w.start_ns
    JOIN totals AS z ON z.rank = w.rank AND z.edge_ns = w.end_ns
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
        ], recursive := true)
    FROM measured
)
SELECT
    rank,
    step,
    kernel_type,
    CAST(time_ns AS BIGINT) AS time_ns,
    window_ns,
    tw_ratio(CAST(time_ns AS BIGINT), window_ns) AS window_share,
    CASE WHEN kernel_type <> 'idle' THEN tw_ratio(CAST(time_ns AS BIGINT), CAST(any_ns AS BIGINT)) END AS busy_share,
    timeline,
    note
FROM combined
WHERE time_ns > 0
ORDER BY rank, step NULLS FIRST, time_ns DESC, kernel_type
