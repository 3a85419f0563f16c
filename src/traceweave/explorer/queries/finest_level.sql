INSERT INTO memory.explorer.levels
SELECT $shift, * FROM memory.explorer.blocks('hits', $from_ns, $until_ns, $shift)
ORDER BY lane, block
