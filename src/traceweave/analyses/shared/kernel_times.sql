-- shared: kernel_times | ranks on which the same kernels take longer than on the others
-- grain: one row per such rank
-- needs: gpu_ops
-- param: slow_kernels
-- param: kernel_spread
-- column: rank INTEGER | global rank
-- column: excess_ns DOUBLE | what it computes longer per step than if it took the median time of the other ranks for each kernel name: of those that launch it as often, or else for as many calls
-- column: longer_share DOUBLE | excess_ns as a share of what these kernels take on the others
-- column: slower_share DOUBLE | share of that time in kernels that are slower at all
-- column: typical_share DOUBLE | half of the kernel names are slower by this or more
-- column: names BIGINT | kernel names compared
-- column: heavy BIGINT | the fewest of them with nine tenths of what is longer
-- column: heaviest VARCHAR | the one that has most of it
WITH
-- A kernel whose own durations differ widely does different work from call to call: it is no yardstick.
medians AS (
    SELECT
        rank,
        name,
        count(*) / any_value(windows) AS count,
        sum(duration_ns) / any_value(windows) AS total_ns,
        tw_percentile(duration_ns, 0.5) AS median_ns,
        tw_percentile(duration_ns, 0.9) / greatest(tw_percentile(duration_ns, 0.1), 1) AS spread
    FROM gpu_ops JOIN {{ ref('rank_windows') }} USING (rank)
    WHERE category = 'compute' AND kind = 'kernel'
    GROUP BY rank, name
),
beside_others AS (
    SELECT
        *,
        median(median_ns) OVER (
            PARTITION BY name ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
        ) AS usual_ns,
        -- with as many calls, the whole of them is the same work, of whatever sizes
        median(total_ns) OVER (
            PARTITION BY name, count ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
        ) AS usual_total_ns,
        max(spread) OVER (PARTITION BY name) AS widest_spread
    FROM medians
),
excess AS MATERIALIZED (
    SELECT
        rank,
        name,
        coalesce(total_ns - usual_total_ns, count * (median_ns - usual_ns)) AS excess_ns,
        coalesce(usual_total_ns, count * usual_ns) AS usual_ns,
        CASE WHEN widest_spread <= {{ param('kernel_spread') }} THEN median_ns / usual_ns END AS ratio
    FROM beside_others
    -- of a kernel of few ticks of the trace, rounding is a good part
    WHERE usual_ns >= 20 * (SELECT tick_ns FROM {{ ref('program') }})
        AND (widest_spread <= {{ param('kernel_spread') }} OR usual_total_ns IS NOT NULL)
),
ordered AS (
    SELECT
        *,
        sum(greatest(excess_ns, 0)) OVER (
            PARTITION BY rank ORDER BY excess_ns DESC, name ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns,
        sum(greatest(excess_ns, 0)) OVER (PARTITION BY rank) AS longer_ns
    FROM excess
)
SELECT
    rank,
    sum(excess_ns) AS excess_ns,
    sum(excess_ns) / sum(usual_ns) AS longer_share,
    coalesce(sum(usual_ns) FILTER (WHERE excess_ns > 0), 0) / sum(usual_ns) AS slower_share,
    median(ratio) - 1 AS typical_share,
    count(*) AS names,
    count(*) FILTER (WHERE excess_ns > 0 AND coalesce(before_ns, 0) < 0.9 * longer_ns) AS heavy,
    arg_max(name, (excess_ns, name)) AS heaviest
FROM ordered
GROUP BY rank
HAVING sum(excess_ns) >= {{ param('slow_kernels') }} * sum(usual_ns)
    AND rank NOT IN (
        SELECT rank
        FROM {{ ref('blame') }}
        WHERE is_straggler AND cause = 'compute'
    )
