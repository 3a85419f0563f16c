-- rule: read_sum | a sum or a barrier that the host waits for
-- topic: communication
-- needs: ref('exposed_calls'), ref('read_calls'), ref('always_read')
-- finds: A collective in every step, two at least, for which the host waits and launches nothing meanwhile: one of a few numbers (at most `read_bytes`, 64) whose result most ranks read (`.item()`) soon after, a loss, a norm, a count; or a barrier. Where the next such call carries bytes, made room for as torch does it, Python objects are exchanged (all_gather_object, gather_object, broadcast_object_list, scatter_object_list, recv_object_list), and the host waits for their bytes too. All ranks are brought together for it. Its scenario takes these collectives away, so that who waits there for the work of others waits in the next one. Bound: their time that no compute hides.
-- try: Sum up and read every so many steps; or read the value of the step before. No find_unused_parameters where all are used. No barriers and no Python objects in the loop.
-- proof: exposed_comm
WITH
-- DDP that looks for unused parameters sums up as int32 on how many ranks each was used, as the last gradients are there, and reads it
used AS (
    SELECT k.op, k.group_id
    FROM {{ ref('read_calls') }} JOIN collectives AS k USING (rank, collective_id) LEFT JOIN tw_collective_issue() AS i USING (call_id)
    WHERE EXISTS (FROM tw_range_names WHERE contains(name, 'reducer::search_unused_parameters'))
    GROUP BY k.op, k.group_id
    HAVING bool_and(k.op = 'all_reduce' AND k.dtype IN ('int', 'Int') AND i.asked_by IS NOT DISTINCT FROM 'gradient')
),
-- bytes of objects beside other calls of their sizes: a scenario would take those away too
mixed AS (
    SELECT DISTINCT e.op, e.group_id
    FROM {{ ref('always_read') }} AS e
    JOIN {{ ref('exposed_calls') }} AS c ON c.op = e.op AND c.group_id IS NOT DISTINCT FROM e.group_id AND c.bytes BETWEEN e.bytes_min AND e.bytes
    WHERE e.is_payload AND NOT c.is_read
),
-- groups that do the same have one mend
parts AS (
    SELECT
        e.op, e.objects, e.is_payload, s.unit, s.each_unit, e.kind, u.op IS NOT NULL AS is_used,
        list(DISTINCT e.group_id ORDER BY e.group_id) AS of_groups,
        max(e.calls) AS calls, max(e.bytes) AS bytes, any_value(e.read_by) AS read_by,
        sum(c.exposed_ns) / any_value(s.windows) AS exposed_ns,
        coalesce(sum(c.exposed_wait_ns), 0) / any_value(s.windows) AS waiting_ns,
        -- of a message one rank has a send, the other a recv
        CASE WHEN NOT bool_or(o.op IS NOT NULL) THEN format(
            'op={} group={}{} wait=none', CASE e.op WHEN 'recv' THEN 'send_recv' ELSE e.op END, nullif(array_to_string(of_groups, ','), ''),
            CASE WHEN e.op = 'barrier' THEN '' ELSE format(' bytes={}-{}', CASE WHEN e.is_payload THEN min(e.bytes_min) ELSE 0 END, max(e.bytes)) END) END AS scenario
    FROM {{ ref('always_read') }} AS e
    LEFT JOIN mixed AS o ON e.is_payload AND o.op = e.op AND o.group_id IS NOT DISTINCT FROM e.group_id
    JOIN {{ ref('read_calls') }} AS r
        ON r.op = e.op AND r.group_id IS NOT DISTINCT FROM e.group_id AND r.objects IS NOT DISTINCT FROM e.objects AND r.is_payload = e.is_payload
    JOIN {{ ref('exposed_calls') }} AS c ON c.rank = r.rank AND c.collective_id = r.collective_id
    LEFT JOIN used AS u ON u.op = e.op AND u.group_id = e.group_id
    CROSS JOIN {{ ref('mean_step') }} AS s
    GROUP BY e.op, e.objects, e.is_payload, s.unit, s.each_unit, e.kind, is_used
),
-- sizes and bytes of objects are one
waited AS (
    SELECT
        coalesce(objects, op) AS op, objects, unit, each_unit, kind, is_used,
        CASE WHEN len(of_groups) = 1 THEN of_groups[1] END AS group_id,
        min(calls) AS calls, max(bytes) AS bytes, any_value(read_by) AS read_by, sum(exposed_ns) AS exposed_ns, sum(waiting_ns) AS waiting_ns,
        string_agg(scenario, '; ' ORDER BY is_payload) AS scenario,
        format('{}_object{}', objects, CASE WHEN ends_with(objects, 'gather') THEN '' ELSE '_list' END) AS named
    FROM parts
    GROUP BY ALL
)
SELECT
    CASE WHEN op = 'barrier' THEN format('{} has {} that hosts wait in', each_unit, barriers)
        WHEN objects IS NOT NULL THEN format('{} exchanges Python objects', each_unit)
        WHEN is_used THEN format('DDP asks in every {} which parameters were used', unit) ELSE format('The host reads the result of {} in every {}', op, unit) END AS title,
    group_id,
    exposed_ns AS cost_ns,
    scenario,
    CASE WHEN op = 'barrier' THEN format('Hosts wait in {} per {}', barriers, unit)
        WHEN objects IS NOT NULL THEN format('The host waits for objects of up to {} in every {}{}, and for their sizes before ({})', tw_size(bytes), unit, often, named)
        ELSE format('The host reads the result of {} ({}) at once in every {}{}, by {}', op, tw_size(bytes), unit, often, read_by) END
    || format('. Compute does not hide {} per {} of that, {} of it waiting', tw_time(exposed_ns), unit, tw_time(waiting_ns)) AS evidence,
    CASE WHEN op = 'barrier' THEN 'No barrier in the loop: collectives make ranks wait for each other where one needs what another has'
        WHEN objects IS NOT NULL THEN format('Tensors of known sizes in place of objects ({}), or not in every {}: objects are pickled, their sizes exchanged and read first', named, unit)
        WHEN is_used THEN 'No find_unused_parameters=True where ranks use all parameters; static_graph=True where they always use the same'
        WHEN op = 'broadcast' THEN format('Let each rank work it out, or send it every so many {}s: until it is there the host does nothing else', unit)
        WHEN op = 'all_gather' THEN format('Gather it every so many {}s: until it is there the host does nothing else', unit)
        WHEN op NOT IN ('all_reduce', 'reduce', 'reduce_scatter') THEN format('Exchange and read it every so many {}s: until it is there the host does nothing else', unit)
        ELSE format('{} and read it every so many {}s, or read the value of the {} before. Until then the host goes on',
            CASE WHEN calls > 1 THEN format('Put the {} into one, sum it up', calls) ELSE 'Sum it up' END, unit, unit) END AS advice
FROM (
    SELECT
        *, CASE WHEN calls > 1 THEN format(', {} times', calls) ELSE '' END AS often,
        CASE WHEN calls > 1 THEN tw_many(calls, 'barrier') ELSE 'a barrier' END AS barriers
    FROM waited
)
