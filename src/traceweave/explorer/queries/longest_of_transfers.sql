-- The longest transfer, of the group if one is named.
SELECT last_rank AS rank, last_start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, transfer_ns AS duration_ns
FROM collective_instances
WHERE ranks_seen >= 2 AND ($group_id IS NULL OR group_id = $group_id)
ORDER BY transfer_ns DESC, start_ns
LIMIT 1
