-- Where a rank waits longest, for one of the ranks if any is named. At its first collective a rank may wait for others that began
-- recording later: only where there is no other wait, that is shown.
SELECT k.rank, k.start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, least(i.last_start_ns - k.start_ns, k.duration_ns) AS duration_ns
FROM collectives AS k JOIN collective_instances AS i USING (collective_id)
WHERE i.ranks_seen >= 2 AND NOT i.is_buffered AND k.receive_op_id IS NULL AND i.last_start_ns > k.start_ns
    AND (len($ranks) = 0 OR list_contains($ranks, i.last_rank))
ORDER BY k.start_ns = min(k.start_ns) OVER (PARTITION BY k.rank), duration_ns DESC, k.rank, start_ns
LIMIT 1
