-- How busy each lane is with each category of work in stretches of 2^shift ns, of the operations in the table `hits`, exactly: what lies over
-- several stretches counts in each as long as it lasts there, and as an operation where it begins. Of operations
-- that overlap on a lane each counts.
CREATE MACRO memory.explorer.blocks(hits, from_ns, until_ns, shift) AS TABLE
WITH placed AS NOT MATERIALIZED (
    SELECT
        lane,
        category,
        start_ns,
        duration_ns,
        start_ns >> shift AS first,
        greatest(start_ns, start_ns + duration_ns - 1) >> shift AS last
    FROM query_table(hits)
),
parts AS (
    SELECT lane, category, first AS block, least(duration_ns, ((first + 1) << shift) - start_ns) AS busy_ns, 1 AS ops, duration_ns
    FROM placed
    WHERE first >= from_ns >> shift
    UNION ALL
    SELECT lane, category, block, least(start_ns + duration_ns, (block + 1) << shift) - (block << shift), 0, duration_ns
    FROM (
        SELECT *, unnest(range(greatest(first + 1, from_ns >> shift), least(last, (until_ns - 1) >> shift) + 1)) AS block
        FROM placed
        WHERE last > first
    )
)
SELECT
    lane,
    category,
    block,
    CAST(sum(busy_ns) AS BIGINT) AS busy_ns,
    CAST(sum(ops) AS BIGINT) AS ops,
    max(duration_ns) AS longest_ns
FROM parts
GROUP BY lane, category, block;
