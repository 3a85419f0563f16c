-- shared: overlap_gains | what the mean step would gain by replay if each operation took no time, or by what makes calls overlap better
-- through: replayed_fixes
-- grain: one row per scenario; one with a note alone where nothing is replayed
-- column: scenario VARCHAR | as what-if takes it
-- column: alone_ns BIGINT | what the mean step gains by it; NULL: it cannot be replayed
-- column: note VARCHAR | how far to trust it, or why it is not replayed
WITH parts AS (
    SELECT
        sum(exposed_ns) AS exposed_ns, sum(launch_starved_ns) AS launch_starved_ns, sum(blocked_ns) AS blocked_ns,
        bool_or(op = 'all_gather') AS gathers
    FROM {{ ref('exposed_parts') }}
),
scenarios AS (
    SELECT DISTINCT format('op={} kind=transfer times=0', op) AS scenario FROM {{ ref('exposed_parts') }} WHERE op <> 'unknown'
    UNION ALL
    SELECT 'kind=copy times=0' FROM {{ ref('mean_step') }} WHERE exposed_memory_ns > 0
    UNION ALL
    SELECT unnest(['kind=transfer times=0', 'overlap=full', CASE WHEN gathers THEN 'prefetch=1' END,
        CASE WHEN launch_starved_ns > 0 THEN 'kind=launch times=0' END, CASE WHEN blocked_ns > 0 THEN 'kind=sync times=0' END])
    FROM parts
    WHERE exposed_ns > 0
    UNION ALL
    SELECT DISTINCT 'stream=own' FROM {{ ref('exposed_causes') }} WHERE cause = 'same_stream'
    UNION ALL
    SELECT scenario FROM {{ ref('smaller_buckets') }}
    UNION ALL
    SELECT 'kind=compute contention=none' FROM {{ ref('contention') }} WHERE "class" IS NULL GROUP BY ALL HAVING sum(lost_ns) > 0
)
SELECT r.operations, s.scenario, FALSE AS is_fix, TRUE AS is_limit
FROM (SELECT count(*) AS operations FROM device_ops) AS r LEFT JOIN (FROM scenarios WHERE scenario IS NOT NULL) AS s ON TRUE
