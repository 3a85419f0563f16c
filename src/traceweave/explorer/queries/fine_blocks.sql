-- Blocks of a view from the operations themselves, which are in temp.hits.
FROM memory.explorer.blocks('hits', $from_ns, $until_ns, $shift)
