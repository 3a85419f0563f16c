-- All ranks together over the whole run, as far as their levels are made.
SELECT category, block >> $by AS block, CAST(sum(busy_ns) AS BIGINT) AS busy_ns
FROM memory.explorer.levels
WHERE shift = $shift
GROUP BY category, block >> $by
