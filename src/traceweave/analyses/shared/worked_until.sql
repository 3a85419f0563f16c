-- shared: worked_until | how long a rank had worked, and idled for which cause, up to each start and end of its collectives
-- grain: one row per rank and such moment; only differences of the times mean anything
-- param: min_gap_ns
-- param: kernel_delay_ns
-- column: rank INTEGER | global rank
-- column: at_ns BIGINT | the moment, rank's own clock
-- column: compute_ns BIGINT | time in which compute had run
-- column: busy_ns BIGINT | compute or communication
-- column: any_ns BIGINT | compute, communication or copies
-- column: launch_ns BIGINT | idle because the host launched too late, or compiled
-- column: sync_ns BIGINT | idle because the host had waited for the GPU
-- column: loading_ns BIGINT | idle because the host waited for data
-- column: allocator_ns BIGINT | idle because the host allocated or freed memory of the GPU
-- column: device_ns BIGINT | idle although work was queued
-- column: code_ns BIGINT | idle because code was loaded, or the profiler blocked the host
WITH edges AS MATERIALIZED (
    SELECT rank, own_start_ns AS at_ns FROM {{ ref('arrivals') }}
    UNION
    SELECT rank, own_end_ns AS at_ns FROM {{ ref('arrivals') }}
),
ops AS NOT MATERIALIZED (
    FROM tw_own_ops()
),
-- the same sweep over gaps by their cause, three causes at a time in place of the three kinds of work
gaps AS MATERIALIZED (
    SELECT rank, cause, start_ns, end_ns
    FROM tw_gaps('span', 'device', {{ param('min_gap_ns') }}, {{ param('kernel_delay_ns') }}, 'summed')
    WHERE start_ns IS NOT NULL AND cause NOT IN ('kernel_delay', 'dependency', 'unknown')
),
late_hosts AS (
    SELECT
        rank,
        CASE cause WHEN 'sync' THEN 'communication' WHEN 'data_loading' THEN 'memory' ELSE 'compute' END AS category,
        start_ns,
        end_ns
    FROM gaps
    WHERE cause IN ('launch_bound', 'compilation', 'sync', 'data_loading')
),
stalls AS (
    SELECT
        rank,
        CASE cause WHEN 'allocator' THEN 'compute' WHEN 'device_delay' THEN 'communication' ELSE 'memory' END AS category,
        start_ns,
        end_ns
    FROM gaps
    WHERE cause IN ('allocator', 'device_delay', 'module_loading', 'profiler_overhead')
)
SELECT
    rank, at_ns, b.compute_ns, b.busy_ns, b.any_ns,
    i.compute_ns AS launch_ns, i.comm_ns AS sync_ns, i.memory_ns AS loading_ns,
    s.compute_ns AS allocator_ns, s.comm_ns AS device_ns, s.memory_ns AS code_ns
FROM tw_busy_until('ops', 'edges') AS b
JOIN tw_busy_until('late_hosts', 'edges') AS i USING (rank, at_ns)
JOIN tw_busy_until('stalls', 'edges') AS s USING (rank, at_ns)
