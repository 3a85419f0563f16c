INSERT INTO memory.explorer.levels
SELECT $shift + $by, lane, category, block >> $by, sum(busy_ns), sum(ops)
FROM memory.explorer.levels
WHERE shift = $shift AND lane IN (SELECT lane FROM memory.explorer.lanes WHERE list_contains($ranks, rank))
GROUP BY lane, category, block >> $by
ORDER BY lane, block >> $by
