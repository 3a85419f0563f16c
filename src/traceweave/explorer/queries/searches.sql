-- Where something is: names, the next one, the longest of its kind.

-- query: found_names
-- Names that hold a text, whatever their case, and how many operations have them.
SELECT name, category, ops
FROM memory.explorer.names
WHERE contains(lower(name), lower($text))
ORDER BY ops DESC, name

-- query: next_hit
-- The next operation on the lanes, after this one, whose name holds a text. Each is told by its start and number.
SELECT lane, rank, op_id AS id, start_ns, duration_ns, name, class AS what, category
FROM memory.explorer.within($from_ns, $until_ns, $low, $high, $short, $ranks)
WHERE name IN (SELECT name FROM memory.explorer.names WHERE contains(lower(name), lower($text)))
    AND (start_ns, op_id) > ($at_ns, $id)
ORDER BY start_ns, op_id
LIMIT 1

-- query: previous_hit
-- As next_hit, backward.
SELECT lane, rank, op_id AS id, start_ns, duration_ns, name, class AS what, category
FROM memory.explorer.within($from_ns, $until_ns, $low, $high, $short, $ranks)
WHERE name IN (SELECT name FROM memory.explorer.names WHERE contains(lower(name), lower($text)))
    AND (start_ns, op_id) < ($at_ns, $id)
ORDER BY start_ns DESC, op_id DESC
LIMIT 1

-- query: longest_of_ops
-- The longest operation of a category; of all ranks where none is named.
SELECT rank, start_ns, duration_ns
FROM memory.explorer.placed
WHERE code = CASE $which WHEN 'compute' THEN 0 WHEN 'communication' THEN 1 ELSE 2 END AND (len($ranks) = 0 OR list_contains($ranks, rank))
ORDER BY duration_ns DESC, rank, start_ns
LIMIT 1

-- query: longest_of_steps
-- The longest step, by its device windows over all ranks where there are any.
SELECT
    NULL AS rank,
    min(coalesce(device_start_ns, start_ns)) - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns,
    max(coalesce(device_end_ns, end_ns)) - min(coalesce(device_start_ns, start_ns)) AS duration_ns
FROM steps
GROUP BY step
ORDER BY duration_ns DESC, start_ns
LIMIT 1

-- query: longest_of_transfers
-- The longest transfer, of the group if one is named.
SELECT last_rank AS rank, awaited_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, transfer_ns AS duration_ns
FROM collective_instances
WHERE ranks_seen >= 2 AND ($group_id IS NULL OR group_id = $group_id)
ORDER BY transfer_ns DESC, start_ns
LIMIT 1

-- query: longest_of_waits
-- Where a rank waits longest, for one of the ranks if any is named. At its first collective a rank may wait for others that began
-- recording later: only where there is no other wait, that is shown.
SELECT k.rank, k.start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, least(i.awaited_ns - k.start_ns, k.duration_ns) AS duration_ns
FROM collectives AS k JOIN collective_instances AS i USING (collective_id)
WHERE i.ranks_seen >= 2 AND NOT i.is_buffered AND awaits_others(i.op, i.root, k.rank) AND k.receive_op_id IS NULL AND i.awaited_ns > k.start_ns
    AND (len($ranks) = 0 OR list_contains($ranks, i.last_rank))
ORDER BY k.start_ns = min(k.start_ns) OVER (PARTITION BY k.rank), duration_ns DESC, k.rank, start_ns
LIMIT 1
