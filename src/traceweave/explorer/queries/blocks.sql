-- How busy each lane is with each category of work in stretches of 2^shift ns, of the operations in the relation `hits`, exactly:
-- what lies over several stretches counts in each as long as it lasts there, and as an operation where it begins. Of operations
-- that overlap on a lane each counts. Of those no longer than a stretch the next one has all the rest, so one pass sums both parts.
CREATE MACRO memory.explorer.blocks(hits, from_ns, until_ns, shift) AS TABLE
WITH begun AS (
    SELECT
        lane,
        category,
        block,
        sum(least(duration_ns, room_ns)) AS busy_ns,
        sum(duration_ns - room_ns) FILTER (duration_ns > room_ns AND duration_ns <= CAST(1 AS BIGINT) << shift) AS rest_ns,
        count(*) AS ops
    FROM (
        SELECT lane, category, duration_ns, start_ns >> shift AS block, (((start_ns >> shift) + 1) << shift) - start_ns AS room_ns
        FROM query_table(hits)
    )
    GROUP BY lane, category, block
),
parts AS (
    SELECT lane, category, block, busy_ns, ops FROM begun
    UNION ALL
    SELECT lane, category, block + 1, rest_ns, 0 FROM begun WHERE rest_ns > 0
    UNION ALL
    SELECT lane, category, block, least(start_ns + duration_ns, (block + 1) << shift) - (block << shift), 0
    FROM (
        SELECT
            *,
            unnest(range(
                greatest(start_ns >> shift, (from_ns >> shift) - 1) + 1,
                least((start_ns + duration_ns - 1) >> shift, (until_ns - 1) >> shift) + 1
            )) AS block
        FROM query_table(hits)
        WHERE duration_ns > CAST(1 AS BIGINT) << shift
    )
)
SELECT lane, category, block, CAST(sum(busy_ns) AS BIGINT) AS busy_ns, CAST(sum(ops) AS BIGINT) AS ops
FROM parts
WHERE block BETWEEN from_ns >> shift AND (until_ns - 1) >> shift
GROUP BY lane, category, block;
