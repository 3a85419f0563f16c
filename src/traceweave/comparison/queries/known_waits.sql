-- Of the rows of match.sql over collectives (`matched`), waiting only in operations of which both runs know it of about the same
-- share of the calls: what is not matched has no wait, and a sum over less of them would look like less waiting. $most: by how
-- much the shares may differ.
WITH shares AS (
    SELECT
        item,
        side,
        coalesce(sum(calls) FILTER (class = 'waiting'), 0) / sum(calls) FILTER (class = 'all') AS share
    FROM matched
    GROUP BY item, side
),
alike AS (
    SELECT item FROM shares GROUP BY item HAVING count(*) = 2 AND min(share) > 0 AND max(share) - min(share) <= $most
)
SELECT CAST(dense_rank() OVER (ORDER BY number) - 1 AS BIGINT) AS number, * EXCLUDE (number)
FROM matched
WHERE class <> 'waiting' OR item IN (FROM alike)
ORDER BY number, side, step
