-- The median duration of a kernel on each rank against the middle one of these medians, for the twelve compute kernels
-- that take most time and run on two ranks or more; `kernels` holds the rows of `traceweave analyze kernels run.duckdb`.
WITH shown AS (
    SELECT kernel, row_number() OVER (ORDER BY total_ns DESC, kernel) AS place
    FROM kernels
    WHERE category = 'compute' AND ranks > 1
    QUALIFY place <= 12
),
medians AS (
    SELECT s.place, s.kernel, o.rank, count(*) AS count, quantile_disc(o.duration_ns, 0.5) AS p50_ns
    FROM gpu_ops AS o JOIN shown AS s ON s.kernel = o.name
    WHERE o.kind = 'kernel'
    GROUP BY s.place, s.kernel, o.rank
)
SELECT
    place,
    kernel,
    rank,
    count,
    p50_ns,
    p50_ns / nullif(quantile_disc(p50_ns, 0.5) OVER (PARTITION BY place), 0) AS ratio
FROM medians
ORDER BY place, rank
