-- rule: read_sum | a sum or a barrier that the host waits for
-- topic: communication
-- needs: ref('exposed_calls'), ref('read_calls'), ref('always_read')
-- finds: A collective in every step, two at least, for which the host waits and launches nothing meanwhile: one of a few numbers (at most `read_bytes`, 64) whose result most ranks read (`.item()`) soon after, a loss, a norm, a count; or a barrier. Where the next such call carries bytes, made room for as torch does it, Python objects are exchanged (all_gather_object, gather_object, broadcast_object_list, recv_object_list). All ranks are brought together for it. Its scenario takes these collectives away, so that who waits there for the work of others waits in the next one. Bound: their time that no compute hides.
-- try: Sum up and read every so many steps; or read the value of the step before. No find_unused_parameters where all are used. No barriers and no Python objects in the loop.
-- proof: exposed_comm
WITH
-- sizes of objects, whose bytes the next such call carries, and what torch alone calls between (all_gather_object, gather_object,
-- broadcast_object_list, recv_object_list):
-- a job may exchange bytes of its own by their sizes
pickled AS (
    SELECT k.op, k.group_id, any_value(k.next_op) AS next_op
    FROM (
        SELECT
            c.*, i.pid, i.tid, i.end_ns AS asked_ns,
            lead(c.dtype) OVER calls IN ('Byte', 'unsigned char') AS is_followed, lead(c.op) OVER calls AS next_op, lead(i.start_ns) OVER calls AS next_ns
        FROM collectives AS c JOIN tw_issued AS i USING (call_id)
        WHERE c.op IN ('all_gather', 'gather', 'broadcast', 'recv')
        WINDOW calls AS (PARTITION BY c.rank, CASE c.op WHEN 'gather' THEN 'all_gather' ELSE c.op END, c.group_id ORDER BY i.start_ns)
    ) AS k
    JOIN {{ ref('read_calls') }} AS r ON r.rank = k.rank AND r.collective_id = k.collective_id
    ASOF LEFT JOIN (SELECT rank, coalesce(pid, -1) AS pid, coalesce(tid, -1) AS tid, name, start_ns FROM host_ops WHERE name IN ('aten::resize_', 'aten::sum')) AS h
        ON h.rank = k.rank AND h.pid = k.pid AND h.tid = k.tid AND h.name = CASE k.op WHEN 'all_gather' THEN 'aten::resize_' ELSE 'aten::sum' END AND k.asked_ns <= h.start_ns
    WHERE k.dtype IN ('Long', 'long int')
    GROUP BY k.op, k.group_id
    HAVING bool_and(k.is_followed AND coalesce(h.start_ns < k.next_ns, FALSE))
),
-- DDP that looks for unused parameters sums up as int32 on how many ranks each was used, as the last gradients are there, and reads it
used AS (
    SELECT k.op, k.group_id
    FROM {{ ref('read_calls') }} JOIN collectives AS k USING (rank, collective_id) LEFT JOIN tw_collective_issue() AS i USING (call_id)
    WHERE EXISTS (FROM tw_range_names WHERE contains(name, 'reducer::search_unused_parameters'))
    GROUP BY k.op, k.group_id
    HAVING bool_and(k.op = 'all_reduce' AND k.dtype IN ('int', 'Int') AND i.asked_by IS NOT DISTINCT FROM 'gradient')
),
waited AS (
    SELECT
        e.*, s.unit, s.each_unit,
        sum(c.exposed_ns) / any_value(s.windows) AS exposed_ns,
        coalesce(sum(c.exposed_wait_ns), 0) / any_value(s.windows) AS waiting_ns
    FROM {{ ref('always_read') }} AS e
    JOIN {{ ref('read_calls') }} AS r ON r.op = e.op AND r.group_id IS NOT DISTINCT FROM e.group_id
    JOIN {{ ref('exposed_calls') }} AS c ON c.rank = r.rank AND c.collective_id = r.collective_id
    CROSS JOIN {{ ref('mean_step') }} AS s
    GROUP BY ALL
)
SELECT
    CASE WHEN op = 'barrier' THEN format('{} has {} that hosts wait in', each_unit, barriers)
        WHEN is_pickled THEN format('{} exchanges Python objects', each_unit)
        WHEN is_used THEN format('DDP asks in every {} which parameters were used', unit) ELSE format('The host reads the result of {} in every {}', op, unit) END AS title,
    group_id,
    exposed_ns AS cost_ns,
    format('op={} group={}{} wait=none', op, group_id, CASE WHEN op = 'barrier' THEN '' ELSE format(' bytes=0-{}', bytes) END) AS scenario,
    CASE WHEN op = 'barrier' THEN format('Hosts wait in {} per {}', barriers, unit)
        ELSE format('The host reads the result of {} ({}) at once in every {}{}, by {}', op, tw_size(bytes), unit, CASE WHEN calls > 1 THEN format(', {} times', calls) ELSE '' END, read_by) END
    || format('. Compute does not hide {} per {} of that, {} of it waiting', tw_time(exposed_ns), unit, tw_time(waiting_ns)) AS evidence,
    CASE WHEN op = 'barrier' THEN 'No barrier in the loop: collectives make ranks wait for each other where one needs what another has'
        WHEN is_pickled THEN format('Tensors of known sizes in place of objects ({}), or not in every {}: objects are pickled, their sizes exchanged and read first', next_op || CASE WHEN op = 'all_gather' THEN '_object' ELSE '_object_list' END, unit)
        WHEN is_used THEN 'No find_unused_parameters=True where ranks use all parameters; static_graph=True where they always use the same'
        WHEN op = 'broadcast' THEN format('Let each rank work it out, or send it every so many {}s: until it is there the host does nothing else', unit)
        WHEN op = 'all_gather' THEN format('Gather it every so many {}s: until it is there the host does nothing else', unit)
        WHEN op NOT IN ('all_reduce', 'reduce', 'reduce_scatter') THEN format('Exchange and read it every so many {}s: until it is there the host does nothing else', unit)
        ELSE format('{} and read it every so many {}s, or read the value of the {} before: until then the host goes on',
            CASE WHEN calls > 1 THEN format('Put the {} into one, sum it up', calls) ELSE 'Sum it up' END, unit, unit) END AS advice
FROM (
    SELECT w.*, p.next_op, p.next_op IS NOT NULL AS is_pickled, (w.op, w.group_id) IN (FROM used) AS is_used
    FROM waited AS w LEFT JOIN pickled AS p ON p.op = w.op AND p.group_id IS NOT DISTINCT FROM w.group_id
) CROSS JOIN LATERAL (SELECT CASE WHEN calls > 1 THEN tw_many(calls, 'barrier') ELSE 'a barrier' END AS barriers)
