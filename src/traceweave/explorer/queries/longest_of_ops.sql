-- The longest operation of a category; of all ranks where none is named.
SELECT rank, start_ns, duration_ns
FROM memory.explorer.placed
WHERE code = CASE $which WHEN 'compute' THEN 0 WHEN 'communication' THEN 1 ELSE 2 END AND (len($ranks) = 0 OR list_contains($ranks, rank))
ORDER BY duration_ns DESC, rank, start_ns
LIMIT 1
