-- Blocks of a view from the level that is at least as fine.
SELECT
    lane,
    category,
    block >> $by AS block,
    CAST(sum(busy_ns) AS BIGINT) AS busy_ns,
    CAST(sum(ops) AS BIGINT) AS ops
FROM memory.explorer.levels
WHERE shift = $shift
    AND block >= ($from_ns >> ($shift + $by)) << $by
    AND block <= ((($until_ns - 1) >> ($shift + $by)) + 1) << $by
    AND lane IN (SELECT lane FROM memory.explorer.lanes WHERE list_contains($ranks, rank))
GROUP BY lane, category, block >> $by
