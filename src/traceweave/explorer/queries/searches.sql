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
-- The longest of the operations that are selected (places.py), in the steps where there are any.
SELECT o.rank, o.start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, o.duration_ns, o.duration_ns AS measure_ns
FROM device_ops AS o
JOIN (
    SELECT op_id, rank, start_ns
    FROM selected
    WHERE len($ranks) = 0 OR list_contains($ranks, rank)
    ORDER BY step IS NULL, end_ns - start_ns DESC, rank, start_ns
    LIMIT 1
) AS l ON l.op_id = o.op_id AND l.rank = o.rank AND l.start_ns = o.start_local_ns

-- query: longest_of_steps
-- The longest step, of those that are named if any is, by its device windows over all ranks, or those that are named.
SELECT NULL AS rank, from_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, until_ns - from_ns AS duration_ns, until_ns - from_ns AS measure_ns
FROM (
    SELECT min(coalesce(device_start_ns, start_ns)) AS from_ns, max(coalesce(device_end_ns, end_ns)) AS until_ns
    FROM steps
    WHERE (len($steps) = 0 OR list_contains($steps, step)) AND (len($ranks) = 0 OR list_contains($ranks, rank))
    GROUP BY step
)
ORDER BY measure_ns DESC, start_ns
LIMIT 1

-- query: longest_of_gaps
-- Where the longest gap of a cause is: in the steps where there are any, in those and on those ranks that are named if any is.
SELECT rank, step, longest_ns AS duration_ns, longest_ns AS measure_ns
FROM idle
WHERE cause = $which AND longest_ns > 0 AND (len($ranks) = 0 OR list_contains($ranks, rank))
    AND CASE WHEN len($steps) > 0 THEN coalesce(list_contains($steps, step), FALSE) ELSE step IS NOT NULL OR NOT EXISTS (FROM idle WHERE step IS NOT NULL) END
ORDER BY longest_ns DESC, rank, step
LIMIT 1

-- query: longest_of_transfers
-- The call that transfers longest without compute, of those that are selected (places.py), of the group and the uses that are
-- named. What one rank takes longer than another in the same transfer is no transfer.
SELECT
    c.rank,
    k.start_ns + coalesce(c.wait_ns, 0) - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns,
    c.duration_ns - coalesce(c.wait_ns, 0) AS duration_ns,
    least(c.bare_ns, i.transfer_min_ns) AS measure_ns
FROM calls AS c JOIN collectives AS k USING (call_id) LEFT JOIN collective_instances AS i ON i.collective_id = c.collective_id
WHERE coalesce(k.gpu_op_id, k.host_op_id) IN (SELECT op_id FROM selected)
    AND c.bare_ns > 0
    AND (len($ranks) = 0 OR list_contains($ranks, c.rank))
    AND (len($steps) = 0 OR list_contains($steps, c.step))
    AND ($group_id IS NULL OR c.group_id = $group_id)
    AND ($which = '' OR list_contains(string_split($which, ','), c.use))
ORDER BY measure_ns DESC, c.bare_ns DESC, c.rank, start_ns
LIMIT 1

-- query: longest_of_waits
-- Where a rank waits longest without compute, for one of the ranks if any is named. At its first collective a rank may wait for
-- others that began recording later: only where there is no other wait, that is shown. Stages of a pipeline wait for each other
-- by its nature: only who asks for that use is shown it.
SELECT c.rank, k.start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, c.wait_ns AS duration_ns, c.exposed_wait_ns AS measure_ns
FROM calls AS c JOIN collectives AS k USING (call_id)
WHERE coalesce(k.gpu_op_id, k.host_op_id) IN (SELECT op_id FROM selected)
    AND c.exposed_wait_ns > 0
    AND (len($steps) = 0 OR list_contains($steps, c.step))
    AND (len($ranks) = 0 OR list_contains($ranks, c.late_rank))
    AND ($group_id IS NULL OR c.group_id = $group_id)
    AND CASE WHEN $which = '' THEN NOT c.is_staged ELSE list_contains(string_split($which, ','), c.use) END
ORDER BY c.is_start, measure_ns DESC, c.rank, start_ns
LIMIT 1
