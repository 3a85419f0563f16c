-- rule: contention | compute that runs longer beside communication or copies
-- topic: communication
-- needs: ref('contention')
-- finds: The same work takes longer beside communication or copies than alone on the same rank: they share SMs and memory bandwidth. Cost: that time, of the kernels that could be compared, nothing extrapolated. Work with at least `slower_share` (80 %) of the compared time has to be slower: where shapes only look equal, some is faster.
-- try: Fewer SMs for communication (NCCL_MAX_CTAS), copy engines in place of its kernels, or other compute beside it.
-- proof: contention
-- param: slower_share
WITH compared AS (
    SELECT
        sum(lost_ns) AS lost_ns,
        sum(compared_ns) AS compared_ns,
        sum(beside_ns) AS beside_ns,
        sum(slower_share * compared_ns) / sum(compared_ns) AS slower_share
    FROM {{ ref('contention') }}
    WHERE class IS NULL AND beside IN ('communication', 'copy')
),
worst AS (
    SELECT beside
    FROM {{ ref('contention') }}
    WHERE class IS NULL AND beside <> 'communication' AND lost_ns > 0
    ORDER BY lost_ns DESC, beside
    LIMIT 1
)
SELECT
    format('Compute loses {} per {} to what runs beside it', tw_time(c.lost_ns), s.unit) AS title,
    c.lost_ns AS cost_ns,
    'kind=compute contention=none' AS scenario,
    format('The same kernels take {} times as long beside communication or copies as alone, {} longer per {}. That compares {} of the {} in which they overlap',
        tw_digits(c.compared_ns / (c.compared_ns - c.lost_ns)), tw_time(c.lost_ns), s.unit, tw_percent(c.compared_ns / c.beside_ns), tw_time(c.beside_ns)) AS evidence,
    CASE w.beside WHEN 'copy' THEN 'Copy at another time, or less: see copies'
        ELSE format('Fewer SMs for {} (NCCL_MAX_CTAS), copy engines in place of kernels, or other compute beside it: see contention', w.beside) END AS advice
FROM compared AS c CROSS JOIN worst AS w CROSS JOIN {{ ref('mean_step') }} AS s
WHERE c.slower_share >= {{ param('slower_share') }}
