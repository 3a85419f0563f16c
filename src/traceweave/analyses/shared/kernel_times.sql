-- shared: kernel_times | ranks that compute longer than the others, rather not by chance, in the same kernels or in more of them
-- grain: one row per such rank
-- param: slow_kernels
-- param: kernel_spread
-- param: straggler_chance
-- column: rank INTEGER | global rank
-- column: excess_ns DOUBLE | what it computes longer per step than if it took the median time of the other ranks (of a stage of a pipeline with several: of those) for each kernel name: of those that launch it as often, or else for as many calls
-- column: longer_share DOUBLE | excess_ns as a share of what these kernels take on the others
-- column: slower_share DOUBLE | share of that time in kernels that are slower at all
-- column: typical_share DOUBLE | half of the kernel names are slower by this or more; NULL: of no name it can be said
-- column: more_ns DOUBLE | how much longer compute runs on it per step than on its like at the median, whatever they run
-- column: others BIGINT | how many ranks are its like
-- column: other INTEGER | that one, if it is one
-- column: more_share DOUBLE | more_ns as a share of that median
-- column: names BIGINT | names of kernels, or of operators without a GPU, that it runs
-- column: heavy BIGINT | the fewest of them with nine tenths of what it is longer in than the others at the median
-- column: heaviest VARCHAR | the one that has most of it
WITH
-- A kernel whose own durations differ widely does different work from call to call: it is no yardstick.
medians AS MATERIALIZED (
    SELECT
        rank,
        name,
        any_value(shared_stage) AS stage,
        count(*) / any_value(windows) AS count,
        sum(duration_ns) / any_value(windows) AS total_ns,
        tw_percentile(duration_ns, 0.5) AS median_ns,
        tw_percentile(duration_ns, 0.9) / greatest(tw_percentile(duration_ns, 0.1), 1) AS spread
    FROM gpu_ops JOIN {{ ref('rank_windows') }} USING (rank) LEFT JOIN {{ ref('pipeline_stages') }} USING (rank)
    WHERE category = 'compute' AND kind = 'kernel' AND (step IS NULL OR tw_counts(rank, step))
    GROUP BY rank, name
    UNION ALL
    -- without a GPU; where ranks share its cores, single calls tell little
    SELECT rank, name, any_value(shared_stage), sum(n) / any_value(windows), sum(ns) / any_value(windows), NULL, NULL
    FROM {{ ref('own_times') }} JOIN {{ ref('rank_windows') }} USING (rank) LEFT JOIN {{ ref('pipeline_stages') }} USING (rank)
    WHERE kind = 'operator' AND (step IS NULL OR tw_counts(rank, step))
    GROUP BY rank, name
),
beside_others AS (
    SELECT
        *,
        median(median_ns) OVER (
            PARTITION BY name, stage ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
        ) AS usual_ns,
        -- with as many calls, the whole of them is the same work, of whatever sizes
        median(total_ns) OVER (
            PARTITION BY name, stage, count ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
        ) AS usual_total_ns,
        max(spread) OVER (PARTITION BY name) AS widest_spread
    FROM medians
),
same AS (
    SELECT
        rank,
        sum(excess_ns) AS excess_ns,
        sum(excess_ns) / sum(usual_ns) AS longer_share,
        coalesce(sum(usual_ns) FILTER (WHERE excess_ns > 0), 0) / sum(usual_ns) AS slower_share,
        median(ratio) - 1 AS typical_share
    FROM (
        SELECT
            rank,
            coalesce(total_ns - usual_total_ns, count * (median_ns - usual_ns)) AS excess_ns,
            coalesce(usual_total_ns, count * usual_ns) AS usual_ns,
            CASE WHEN widest_spread <= {{ param('kernel_spread') }} THEN median_ns / usual_ns END AS ratio
        FROM beside_others
        -- of a kernel of few ticks of the trace, rounding is a good part
        WHERE usual_ns >= 20 * (SELECT tick_ns FROM {{ ref('program') }})
            AND (widest_spread <= {{ param('kernel_spread') }} OR usual_total_ns IS NOT NULL)
    )
    GROUP BY rank
),
work AS (
    SELECT rank, any_value(others) AS others, any_value(other) AS other, avg(more_ns) AS more_ns, sum(more_ns) / nullif(sum(compute_ns - more_ns), 0) AS more_share FROM {{ ref('beside_its_like') }} GROUP BY rank
),
-- of a rank that does not run a kernel the time is 0
longer AS (
    SELECT m.rank, m.name, greatest(m.total_ns - tw_median_of_others(n.all_ns, m.total_ns, z.ranks), 0) AS longer_ns
    FROM medians AS m JOIN (SELECT name, list(total_ns ORDER BY total_ns) AS all_ns FROM medians GROUP BY name) AS n USING (name)
    CROSS JOIN (SELECT count(*) AS ranks FROM {{ ref('rank_windows') }}) AS z
    WHERE z.ranks > 1
),
parts AS (
    SELECT
        rank,
        count(*) AS names,
        count(*) FILTER (WHERE longer_ns > 0 AND coalesce(before_ns, 0) < 0.9 * all_ns) AS heavy,
        arg_max(name, (longer_ns, name)) FILTER (longer_ns > 0) AS heaviest
    FROM (
        SELECT
            *,
            sum(longer_ns) OVER (PARTITION BY rank ORDER BY longer_ns DESC, name ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns,
            sum(longer_ns) OVER (PARTITION BY rank) AS all_ns
        FROM longer
    )
    GROUP BY rank
),
-- who is slow, or has more to do, computes longer in most steps; whose inputs are now longer, now shorter, in some
steps AS (
    SELECT CAST(unnest(drawn.rank) AS INTEGER) AS rank, unnest(drawn.chance) AS chance
    FROM (
        SELECT sweep_chances(list(trial), list(rank), list(greatest(more_ns, 0))) AS drawn
        FROM (
            SELECT dense_rank() OVER (ORDER BY step, stage) AS trial, rank, more_ns, step FROM {{ ref('beside_its_like') }} WHERE step IS NOT NULL
        )
        HAVING count(DISTINCT step) > 1
    )
)
SELECT rank, s.excess_ns, s.longer_share, s.slower_share, s.typical_share, w.more_ns, w.others, w.other, w.more_share, p.names, p.heavy, p.heaviest
FROM parts AS p LEFT JOIN work AS w USING (rank) LEFT JOIN same AS s USING (rank) LEFT JOIN steps AS c USING (rank)
WHERE greatest(s.longer_share, w.more_share) >= {{ param('slow_kernels') }} AND coalesce(c.chance <= {{ param('straggler_chance') }}, s.typical_share IS NOT NULL)
    AND rank NOT IN (
        SELECT rank
        FROM {{ ref('blame') }}
        WHERE is_straggler AND cause = 'compute'
    )
