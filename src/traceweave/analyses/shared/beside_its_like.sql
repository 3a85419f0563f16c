-- shared: beside_its_like | how long compute runs on each rank, and how much longer than on the ranks that are like it
-- grain: one row per rank and step, where another rank is like it; none of stages of a pipeline that are one rank
-- column: rank INTEGER | global rank
-- column: stage INTEGER | its stage of a pipeline, if that has several ranks: the others are not like it
-- column: others BIGINT | how many ranks are like it
-- column: other INTEGER | that one, if it is one
-- column: step BIGINT | step; NULL: the whole recording
-- column: compute_ns BIGINT | as in breakdown
-- column: more_ns BIGINT | that, less the median of its like
WITH
names AS MATERIALIZED (
    SELECT t.rank, p.shared_stage AS stage, t.name, CAST(sum(t.n) AS BIGINT) AS n, CAST(sum(t.ns) AS BIGINT) AS ns
    FROM {{ ref('own_times') }} AS t LEFT JOIN {{ ref('pipeline_stages') }} AS p USING (rank)
    WHERE t.rank IS NOT NULL AND (p.shared_stage IS NOT NULL OR p.rank IS NULL) AND (t.step IS NULL OR tw_counts(t.rank, t.step))
    GROUP BY ALL
),
-- A rank is like those that run what it computes longest as often, else at all; else it is like all. In a job of several programs,
-- of ranks that generate and ranks that train, each is compared with its own.
heaviest AS (
    SELECT rank, any_value(stage) AS stage, arg_max(name, (ns, name)) AS name, arg_max(n, (ns, name)) AS n
    FROM names
    GROUP BY rank
),
alike AS MATERIALIZED (
    SELECT h.rank, h.stage, coalesce(r.as_often, r.at_all, a.ranks) AS ranks
    FROM heaviest AS h
    JOIN (SELECT stage, list(rank ORDER BY rank) AS ranks FROM heaviest GROUP BY stage) AS a ON a.stage IS NOT DISTINCT FROM h.stage
    JOIN (
        SELECT
            h.rank, CASE WHEN count(*) > 1 THEN list(m.rank ORDER BY m.rank) END AS at_all,
            CASE WHEN count(*) FILTER (m.n = h.n) > 1 THEN list(m.rank ORDER BY m.rank) FILTER (m.n = h.n) END AS as_often
        FROM heaviest AS h JOIN names AS m ON m.name = h.name AND m.stage IS NOT DISTINCT FROM h.stage
        GROUP BY h.rank
    ) AS r ON r.rank = h.rank
)
SELECT a.rank, a.stage, len(a.ranks) - 1 AS others, CASE WHEN others = 1 THEN CAST(list_sum(a.ranks) - a.rank AS INTEGER) END AS other, b.step, b.compute_ns, b.compute_ns - tw_median_of_others(t.all_ns, b.compute_ns, len(t.all_ns)) AS more_ns
FROM alike AS a JOIN {{ ref('budget') }} AS b USING (rank)
JOIN (
    SELECT p.ranks, o.step, list(o.compute_ns ORDER BY o.compute_ns) AS all_ns
    FROM (SELECT ranks, unnest(ranks) AS rank FROM (SELECT DISTINCT ranks FROM alike)) AS p JOIN {{ ref('budget') }} AS o USING (rank)
    GROUP BY p.ranks, o.step
) AS t ON t.ranks = a.ranks AND t.step IS NOT DISTINCT FROM b.step
WHERE len(t.all_ns) > 1
