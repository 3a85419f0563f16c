-- A level of the ranks whose turn it is, from their operations.
INSERT INTO memory.explorer.levels
SELECT $shift, * FROM memory.explorer.blocks('memory.explorer.in_turn', 0, $until_ns, $shift)
ORDER BY lane, block
