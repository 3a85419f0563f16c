-- analysis: kernel_ranks | how long the same kernel takes on each rank, beside the median rank
-- answers: Is the same kernel slower on some rank, and by how much?
-- topic: time
-- grain: one row per kernel name and rank
-- needs: ref('kernels')
-- param: kernels BIGINT = NULL | number of compute kernels, those that take most time; NULL: all that run on two ranks or more
-- param: rank BIGINT = NULL | this rank only, beside all; NULL: all
-- column: kernel VARCHAR | the name
-- column: rank INTEGER | global rank
-- column: count BIGINT | how often it ran there
-- column: total_ns BIGINT | sum of its durations there
-- column: usual_total_ns BIGINT | the median of these sums over the ranks that run it
-- column: excess_ns BIGINT | total_ns - usual_total_ns
-- column: p50_ns BIGINT | median of its durations there
-- column: usual_p50_ns BIGINT | the median of these medians over the ranks
-- column: ratio DOUBLE | p50_ns / usual_p50_ns; NULL if that is 0
-- column: place BIGINT | of the kernel, by its time on all ranks: 1 takes most
-- main: kernel, rank, count, total_ns, excess_ns, p50_ns, ratio, place
-- order: place, rank
-- caveat: only compute: a collective's kernel waits for other ranks, so that its length says nothing of the rank it runs on.
-- caveat: kernels of one name may do different work on different ranks: args of gpu_ops has their grids and shapes.
WITH shown AS (
    SELECT kernel, row_number() OVER (ORDER BY total_ns DESC, kernel) AS place
    FROM {{ ref('kernels') }}
    WHERE category = 'compute' AND ranks > 1
    QUALIFY {{ param('kernels') }} IS NULL OR place <= {{ param('kernels') }}
),
medians AS (
    SELECT
        s.place,
        s.kernel,
        o.rank,
        count(*) AS count,
        CAST(sum(o.duration_ns) AS BIGINT) AS total_ns,
        tw_percentile(o.duration_ns, 0.5) AS p50_ns
    FROM gpu_ops AS o JOIN shown AS s ON s.kernel = o.name
    WHERE o.kind = 'kernel'
    GROUP BY s.place, s.kernel, o.rank
),
usual AS (
    SELECT place, tw_percentile(p50_ns, 0.5) AS usual_p50_ns, tw_percentile(total_ns, 0.5) AS usual_total_ns FROM medians GROUP BY place
)
SELECT
    kernel, rank, count, total_ns, usual_total_ns, total_ns - usual_total_ns AS excess_ns,
    p50_ns, usual_p50_ns, tw_ratio(p50_ns, usual_p50_ns) AS ratio, place
FROM medians JOIN usual USING (place)
WHERE {{ param('rank') }} IS NULL OR rank = {{ param('rank') }}
ORDER BY place, rank
