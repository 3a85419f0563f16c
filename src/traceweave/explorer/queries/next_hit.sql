-- The next operation on the lanes, after this one, whose name holds a text. Each is told by its start and number.
SELECT lane, rank, op_id AS id, start_ns, duration_ns, name, class AS what, category
FROM memory.explorer.within($from_ns, $until_ns, $low, $high, $short, $ranks)
WHERE name IN (SELECT name FROM memory.explorer.names WHERE contains(lower(name), lower($text)))
    AND (start_ns, op_id) > ($at_ns, $id)
ORDER BY start_ns, op_id
LIMIT 1
