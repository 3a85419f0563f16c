-- analysis: sequences | kernels that follow each other again and again on one stream
-- answers: Which kernels always follow each other, and would be worth fusing?
-- topic: time
-- grain: one row per sequence of kernel names that occurs at least min_count times
-- needs: gpu_ops
-- param: length BIGINT = 3 | kernels in a sequence, 2 to 6
-- param: min_count BIGINT = 10 | leave out sequences that occur less often
-- param: max_kernel_ns BIGINT = NULL | only sequences in which every kernel takes at most this long, as candidates for fusion; NULL: any
-- param: rank BIGINT = NULL | this rank only; NULL: all
-- column: kernels VARCHAR[] | the names, in the order in which they ran
-- column: count BIGINT | times that they followed each other; occurrences that share kernels count each
-- column: total_ns BIGINT | sum of the durations of their kernels
-- column: mean_ns DOUBLE | total_ns / count
-- column: gap_total_ns BIGINT | time between them in which the stream had nothing to do
-- column: gap_mean_ns DOUBLE | gap_total_ns / count: what fusing would save at least, with one kernel in their place
-- column: first_follows DOUBLE | share of the runs of the first kernel that are followed by the others, 0 to 1
-- column: ranks BIGINT | ranks on which it occurs
-- column: streams BIGINT | streams on which it occurs, over the ranks
-- order: total_ns DESC, count DESC, kernels
-- caveat: copies, memsets and collectives break a sequence; so does a graph recorded as one span.
-- caveat: a sequence that repeats (a b a b) is found at every offset: (a b a) and (b a b).
-- caveat: kernels that follow each other need not depend on each other; the shapes decide whether they can be fused.
WITH names AS MATERIALIZED (
    SELECT name, row_number() OVER (ORDER BY name) AS id
    FROM (SELECT DISTINCT name FROM gpu_ops WHERE kind = 'kernel')
),
ordered AS (
    SELECT
        g.rank,
        coalesce(g.device, -1) AS device,
        coalesce(g.stream, -1) AS stream,
        CASE WHEN g.category = 'compute' AND g.name <> 'CUDA graph' THEN n.id END AS id,
        g.start_local_ns AS start_ns,
        g.start_local_ns + g.duration_ns AS end_ns,
        g.duration_ns
    FROM gpu_ops AS g LEFT JOIN names AS n USING (name)
    WHERE {{ param('rank') }} IS NULL OR g.rank = {{ param('rank') }}
),
led AS (
    SELECT
        rank, device, stream, id, duration_ns,
        greatest(start_ns - lag(end_ns) OVER in_order, 0) AS gap_ns,
        nth_value(id, 2) OVER ahead AS id2,
        nth_value(id, 3) OVER ahead AS id3,
        nth_value(id, 4) OVER ahead AS id4,
        nth_value(id, 5) OVER ahead AS id5,
        nth_value(id, 6) OVER ahead AS id6,
        start_ns, end_ns
    FROM ordered
    WINDOW
        in_order AS (PARTITION BY rank, device, stream ORDER BY start_ns, end_ns),
        -- not lead() with an offset, which DuckDB 1.4 does not read in a macro that 2.0 wrote
        ahead AS (in_order ROWS BETWEEN CURRENT ROW AND 5 FOLLOWING)
),
-- sums over a sequence as differences of sums from the beginning of the stream
placed AS (
    SELECT
        rank, device, stream, id, id2, id3, id4, id5, id6, gap_ns, duration_ns,
        sum(duration_ns) OVER ahead AS total_ns,
        max(duration_ns) OVER ahead AS longest_ns,
        sum(gap_ns) OVER ahead AS gaps_ns
    FROM led
    WINDOW ahead AS (
        PARTITION BY rank, device, stream ORDER BY start_ns, end_ns ROWS BETWEEN CURRENT ROW AND {{ param('length') }} - 1 FOLLOWING
    )
),
found AS (
    SELECT
        rank,
        device,
        stream,
        id,
        id2,
        CASE WHEN {{ param('length') }} >= 3 THEN id3 END AS id3,
        CASE WHEN {{ param('length') }} >= 4 THEN id4 END AS id4,
        CASE WHEN {{ param('length') }} >= 5 THEN id5 END AS id5,
        CASE WHEN {{ param('length') }} >= 6 THEN id6 END AS id6,
        total_ns,
        gaps_ns - coalesce(gap_ns, 0) AS gaps_ns
    FROM placed
    WHERE id IS NOT NULL AND id2 IS NOT NULL
        AND ({{ param('length') }} < 3 OR id3 IS NOT NULL) AND ({{ param('length') }} < 4 OR id4 IS NOT NULL)
        AND ({{ param('length') }} < 5 OR id5 IS NOT NULL) AND ({{ param('length') }} < 6 OR id6 IS NOT NULL)
        AND ({{ param('max_kernel_ns') }} IS NULL OR longest_ns <= {{ param('max_kernel_ns') }})
),
runs AS (
    SELECT id, count(*) AS runs FROM ordered WHERE id IS NOT NULL GROUP BY id
),
grouped AS (
    SELECT
        id, id2, id3, id4, id5, id6,
        count(*) AS count,
        CAST(sum(total_ns) AS BIGINT) AS total_ns,
        CAST(sum(gaps_ns) AS BIGINT) AS gap_total_ns,
        count(DISTINCT rank) AS ranks,
        count(DISTINCT (rank, device, stream)) AS streams
    FROM found
    GROUP BY id, id2, id3, id4, id5, id6
    HAVING count(*) >= {{ param('min_count') }}
),
named AS (
    SELECT
        list_filter([a.name, b.name, c.name, d.name, e.name, f.name], lambda name: name IS NOT NULL) AS kernels,
        g.*,
        runs.runs
    FROM grouped AS g
    JOIN runs USING (id)
    JOIN names AS a ON a.id = g.id
    JOIN names AS b ON b.id = g.id2
    LEFT JOIN names AS c ON c.id = g.id3
    LEFT JOIN names AS d ON d.id = g.id4
    LEFT JOIN names AS e ON e.id = g.id5
    LEFT JOIN names AS f ON f.id = g.id6
)
SELECT
    kernels,
    count,
    total_ns,
    tw_ratio(total_ns, count) AS mean_ns,
    gap_total_ns,
    tw_ratio(gap_total_ns, count) AS gap_mean_ns,
    tw_ratio(count, runs) AS first_follows,
    ranks,
    streams
FROM named
ORDER BY total_ns DESC, count DESC, kernels
