-- analysis: kernels | time of GPU kernels by name or by class, and how evenly the ranks share it
-- answers: Which kernels take the GPU's time, and is the same kernel slower on one rank?
-- topic: time
-- grain: one row per kernel name or class, over all ranks
-- needs: gpu_ops
-- page: table-kernels
-- param: per VARCHAR = 'name' | what the kernels are grouped by
-- choice: per 'name' | the kernel's name
-- choice: per 'class' | the kind of work: gemm, attention, collective ...
-- param: rank BIGINT = NULL | count this rank only; NULL: all
-- param: step BIGINT = NULL | count kernels launched in this step only; NULL: all
-- column: kernel VARCHAR | the name, or the class
-- column: class VARCHAR | kind of work, as gpu_ops has it
-- column: category VARCHAR | 'compute', 'communication' or 'memory' (copies that a kernel does); per = 'class': NULL if the class has several
-- column: count BIGINT | kernels
-- column: total_ns BIGINT | sum of their durations
-- column: mean_ns DOUBLE | total_ns / count
-- column: min_ns BIGINT | shortest
-- column: p50_ns BIGINT | median of the durations
-- column: p95_ns BIGINT | 95th percentile
-- column: p99_ns BIGINT | 99th percentile
-- column: max_ns BIGINT | longest
-- column: stddev_ns DOUBLE | sample standard deviation; NULL for a single kernel
-- column: share DOUBLE | total_ns / total_ns of all rows, 0 to 1
-- column: names BIGINT | different kernel names among them
-- column: ranks BIGINT | ranks that ran any
-- column: fastest_rank INTEGER | the rank with the smallest median, the lowest of several
-- column: fastest_p50_ns BIGINT | its median
-- column: slowest_rank INTEGER | the rank with the largest median, the lowest of several
-- column: slowest_p50_ns BIGINT | its median
-- column: rank_spread DOUBLE | slowest_p50_ns / fastest_p50_ns; NULL with one rank or if the smaller is 0
-- column: note VARCHAR | why rank_spread is NULL or means something else; NULL if there is nothing to say
-- main: kernel, class, count, total_ns, p50_ns, max_ns, share
-- order: total_ns DESC, kernel
-- caveat: durations add up over streams, so the total can exceed the time that passed; breakdown counts that time once.
-- caveat: a percentile is the nearest rank: always one of the measured values; nsys stats takes the mean of the two middle ones for its median.
-- caveat: a collective's duration includes waiting for other ranks: its slowest rank is the one that waits most, not the one to blame.
-- caveat: a CUDA graph that was recorded as one span counts as one kernel named 'CUDA graph'.
WITH chosen AS (
    SELECT
        CASE WHEN {{ param('per') }} = 'class' THEN class ELSE name END AS kernel,
        name,
        class,
        category,
        rank,
        duration_ns
    FROM gpu_ops
    WHERE kind = 'kernel'
        AND ({{ param('rank') }} IS NULL OR rank = {{ param('rank') }})
        AND ({{ param('step') }} IS NULL OR step = {{ param('step') }})
),
totals AS (
    SELECT
        kernel,
        min(class) AS class,
        CASE WHEN min(category) = max(category) THEN min(category) END AS category,
        bool_or(category = 'communication') AS communicates,
        count(*) AS count,
        CAST(sum(duration_ns) AS BIGINT) AS total_ns,
        min(duration_ns) AS min_ns,
        tw_percentile(duration_ns, [0.5, 0.95, 0.99]) AS percentiles,
        max(duration_ns) AS max_ns,
        stddev_samp(duration_ns) AS stddev_ns,
        count(DISTINCT name) AS names
    FROM chosen
    GROUP BY kernel
),
per_rank AS (
    SELECT kernel, rank, tw_percentile(duration_ns, 0.5) AS p50_ns
    FROM chosen
    GROUP BY kernel, rank
),
spread AS (
    SELECT
        kernel,
        count(*) AS ranks,
        first(rank ORDER BY p50_ns, rank) AS fastest_rank,
        min(p50_ns) AS fastest_p50_ns,
        first(rank ORDER BY p50_ns DESC, rank) AS slowest_rank,
        max(p50_ns) AS slowest_p50_ns
    FROM per_rank
    GROUP BY kernel
)
SELECT
    t.kernel,
    t.class,
    t.category,
    t.count,
    t.total_ns,
    tw_ratio(t.total_ns, t.count) AS mean_ns,
    t.min_ns,
    t.percentiles[1] AS p50_ns,
    t.percentiles[2] AS p95_ns,
    t.percentiles[3] AS p99_ns,
    t.max_ns,
    t.stddev_ns,
    tw_ratio(t.total_ns, CAST(sum(t.total_ns) OVER () AS BIGINT)) AS share,
    t.names,
    s.ranks,
    s.fastest_rank,
    s.fastest_p50_ns,
    s.slowest_rank,
    s.slowest_p50_ns,
    CASE WHEN s.ranks > 1 THEN tw_ratio(s.slowest_p50_ns, s.fastest_p50_ns) END AS rank_spread,
    CASE
        WHEN s.ranks = 1 THEN 'one rank: no spread'
        WHEN t.communicates THEN 'waiting included: the slowest rank is the one that waits'
    END AS note
FROM totals AS t JOIN spread AS s USING (kernel)
ORDER BY t.total_ns DESC, t.kernel
