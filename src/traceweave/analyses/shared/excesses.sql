-- shared: excesses | what a rank that came last did longer than the others on its way to the collective
-- grain: one row per such rank and collective, where others came the same way: from the same collective before
-- needs: ref('stretches')
-- column: rank INTEGER | the rank that came last
-- column: step BIGINT | step in which it issued the collective
-- column: waiting_ranks BIGINT | ranks that waited for it
-- column: delay_ns BIGINT | for how long
-- column: late_end_ns DOUBLE | how much later the collective before ended on it, as far as the clocks resolve it
-- column: compute_ns DOUBLE | this and the following as in stretches, less the mean of the others
-- column: comm_ns DOUBLE | communication without compute, where it can have been held up there
-- column: copies_ns DOUBLE | copies alone
-- column: launch_ns DOUBLE | idle, the host launched late; of a collective that was launched late, what nothing else explains
-- column: sync_ns DOUBLE | idle, the host had waited for the GPU
-- column: loading_ns DOUBLE | idle, the host waited for data
-- column: allocator_ns DOUBLE | idle, the host allocated or freed memory
-- column: code_ns DOUBLE | idle, code was loaded, or the profiler blocked the host
-- column: device_ns DOUBLE | idle although work was queued
-- column: other_ns DOUBLE | idle for another cause, or none that is recorded
WITH others AS (
    SELECT
        collective_id, previous_id,
        CASE WHEN min(ended_ns) > 0 THEN CAST(sum(ended_ns) // count(*) AS BIGINT) END AS ended_ns, avg(compute_ns) AS compute_ns, avg(comm_ns) AS comm_ns, avg(copies_ns) AS copies_ns, avg(launch_ns) AS launch_ns,
        avg(sync_ns) AS sync_ns, avg(loading_ns) AS loading_ns, avg(allocator_ns) AS allocator_ns, avg(code_ns) AS code_ns,
        avg(device_ns) AS device_ns, avg(other_ns) AS other_ns
    FROM {{ ref('stretches') }}
    WHERE NOT is_last
    GROUP BY collective_id, previous_id
)
SELECT
    l.rank, l.step, l.waiting_ranks, l.delay_ns,
    CASE WHEN l.ended_ns > 0 AND o.ended_ns > 0 AND abs(l.ended_ns - o.ended_ns) >= i.resolution_ns THEN CAST(l.ended_ns - o.ended_ns AS DOUBLE) ELSE 0 END AS late_end_ns,
    l.compute_ns - o.compute_ns AS compute_ns,
    CASE WHEN l.is_elsewhere THEN l.comm_ns - o.comm_ns ELSE 0 END AS comm_ns,
    l.copies_ns - o.copies_ns AS copies_ns,
    l.launch_ns - o.launch_ns AS launch_ns,
    l.sync_ns - o.sync_ns AS sync_ns,
    l.loading_ns - o.loading_ns AS loading_ns,
    l.allocator_ns - o.allocator_ns AS allocator_ns,
    l.code_ns - o.code_ns AS code_ns,
    l.device_ns - o.device_ns AS device_ns,
    l.other_ns - o.other_ns AS other_ns
FROM (FROM {{ ref('stretches') }} ANTI JOIN {{ ref('late_launches') }} USING (collective_id, previous_id)) AS l
JOIN others AS o USING (collective_id, previous_id)
JOIN collective_instances AS i USING (collective_id)
WHERE l.is_last
UNION ALL
SELECT
    s.rank, s.step, s.waiting_ranks, s.delay_ns,
    0, 0, 0, 0,
    greatest(s.delay_ns - l.sync_ns - l.loading_ns - l.allocator_ns - l.code_ns - greatest(s.device_ns - o.device_ns, 0), 0),
    l.sync_ns, l.loading_ns, l.allocator_ns, l.code_ns,
    -- what was launched and did not start was no matter of the host
    greatest(s.device_ns - o.device_ns, 0),
    0
FROM {{ ref('stretches') }} AS s
JOIN {{ ref('late_launches') }} AS l USING (collective_id, previous_id)
JOIN others AS o USING (collective_id, previous_id)
WHERE s.is_last
