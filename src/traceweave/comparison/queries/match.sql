-- The rows of both runs under one number per item. Items match by name and shape; the shapes of a name that only one run
-- has are put together under 'other shapes', so that a new batch size makes no kernel vanish.
WITH sides AS (
    SELECT 0 AS side, * FROM base_items
    UNION ALL
    SELECT 1 AS side, * FROM new_items
),
shapes AS (
    SELECT item, class, shape, count(DISTINCT side) = 2 AS shared FROM sides GROUP BY ALL
),
names AS (
    SELECT item, class, count(DISTINCT side) = 2 AS shared FROM sides GROUP BY ALL
),
labelled AS (
    SELECT
        s.side,
        s.item,
        s.class,
        CASE WHEN p.shared THEN s.shape WHEN n.shared THEN 'other shapes' END AS shape,
        s.step,
        s.calls,
        s.total_ns
    FROM sides AS s
    JOIN shapes AS p ON p.item = s.item AND p.class = s.class AND p.shape IS NOT DISTINCT FROM s.shape
    JOIN names AS n ON n.item = s.item AND n.class = s.class
),
summed AS (
    SELECT item, class, shape, side, step, CAST(sum(calls) AS BIGINT) AS calls, CAST(sum(total_ns) AS BIGINT) AS total_ns
    FROM labelled
    GROUP BY ALL
)
SELECT CAST(dense_rank() OVER (ORDER BY item, class, shape NULLS FIRST) - 1 AS BIGINT) AS number, *
FROM summed
ORDER BY number, side, step
