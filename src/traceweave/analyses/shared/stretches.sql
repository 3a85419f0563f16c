-- shared: stretches | what a rank did on its way to a collective in which the clocks resolve who came last
-- grain: one row per rank and such collective, where something lies between it and the collective that made the ranks even
-- needs: ref('legs')
-- column: collective_id BIGINT | this and the following, up to start_ns, as in legs
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it issued the collective
-- column: group_id INTEGER | process group
-- column: is_last BOOLEAN | this rank arrived last
-- column: delay_ns BIGINT | from the start of the last but one to that of the last rank
-- column: waiting_ranks BIGINT | ranks that waited for the last one
-- column: previous_id BIGINT | the collective that made the ranks even
-- column: from_ns BIGINT | its end, rank's own clock
-- column: ended_ns BIGINT | the same end, common clock
-- column: start_ns BIGINT | start of this collective, rank's own clock
-- column: is_elsewhere BOOLEAN | a collective of other ranks began or ended meanwhile: only there can one be held up, in its own group who waits longest was first
-- column: compute_ns BIGINT | time between the two in which compute ran
-- column: comm_ns BIGINT | communication without compute
-- column: copies_ns BIGINT | copies alone
-- column: launch_ns BIGINT | this and the following, up to code_ns: idle for a cause, as in worked_until
-- column: sync_ns BIGINT | the host had waited for the GPU
-- column: loading_ns BIGINT | the host waited for data
-- column: allocator_ns BIGINT | the host allocated or freed memory of the GPU
-- column: device_ns BIGINT | work was queued
-- column: code_ns BIGINT | code was loaded, or the profiler blocked the host
-- column: other_ns BIGINT | idle for another cause, or none that is recorded
WITH
-- How many collectives of other ranks have begun or ended by each edge:
elsewhere AS MATERIALIZED (
    SELECT DISTINCT
        rank, group_id, pair, at_ns,
        count(*) OVER (PARTITION BY rank ORDER BY at_ns)
            - count(*) OVER (PARTITION BY rank, group_id, pair ORDER BY at_ns) AS passed
    FROM (
        SELECT rank, group_id, pair, unnest([own_start_ns, own_end_ns]) AS at_ns FROM {{ ref('arrivals') }}
        UNION ALL
        SELECT rank, group_id, NULL, unnest([start_local_ns, start_local_ns + duration_ns]) FROM collectives WHERE collective_id IS NULL
    )
),
placed AS MATERIALIZED (
    SELECT t.* EXCLUDE (pair, is_late, first_id), till.passed > since.passed AS is_elsewhere
    FROM (FROM {{ ref('legs') }} WHERE is_late AND previous_id >= 0 AND from_ns < start_ns) AS t
    JOIN elsewhere AS since
        ON since.rank = t.rank AND since.group_id = t.group_id AND since.pair IS NOT DISTINCT FROM t.pair AND since.at_ns = t.from_ns
    JOIN elsewhere AS till
        ON till.rank = t.rank AND till.group_id = t.group_id AND till.pair IS NOT DISTINCT FROM t.pair AND till.at_ns = t.start_ns
),
entered AS MATERIALIZED (
    SELECT s.*, a AS before
    FROM placed AS s JOIN {{ ref('worked_until') }} AS a ON a.rank = s.rank AND a.at_ns = s.from_ns
),
spent AS (
    SELECT
        s.* EXCLUDE (before),
        z.compute_ns - before.compute_ns AS compute_ns,
        (z.busy_ns - before.busy_ns) - (z.compute_ns - before.compute_ns) AS comm_ns,
        (z.any_ns - before.any_ns) - (z.busy_ns - before.busy_ns) AS copies_ns,
        z.launch_ns - before.launch_ns AS launch_ns,
        z.sync_ns - before.sync_ns AS sync_ns,
        z.loading_ns - before.loading_ns AS loading_ns,
        z.allocator_ns - before.allocator_ns AS allocator_ns,
        z.device_ns - before.device_ns AS device_ns,
        z.code_ns - before.code_ns AS code_ns,
        (s.start_ns - s.from_ns) - (z.any_ns - before.any_ns) AS idle_ns
    FROM entered AS s JOIN {{ ref('worked_until') }} AS z ON z.rank = s.rank AND z.at_ns = s.start_ns
)
SELECT
    collective_id, rank, step, group_id, is_last, delay_ns, waiting_ranks, previous_id, from_ns, ended_ns, start_ns, is_elsewhere,
    compute_ns, comm_ns, copies_ns, launch_ns, sync_ns, loading_ns, allocator_ns, device_ns, code_ns,
    idle_ns - launch_ns - sync_ns - loading_ns - allocator_ns - device_ns - code_ns AS other_ns
FROM spent
