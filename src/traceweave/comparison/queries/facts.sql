-- What the traces say of the run as a whole, in one row; lists are ascending, and empty where nothing is known.
-- ORDER BY ALL in ARRAY() over a view undoes its DISTINCT (DuckDB 2.0), so columns are named.
WITH stages AS (
    SELECT r.rank, min(list_position(g.ranks, r.rank)) - 1 AS stage
    FROM ranks AS r JOIN groups AS g ON g.role = 'pp' AND list_contains(g.ranks, r.rank)
    GROUP BY r.rank
),
messages AS (
    SELECT DISTINCT rank FROM collectives WHERE op IN ('send', 'recv')
),
-- ranks with the same role do the same work: a stage of a pipeline, or, where ranks send each other messages and no group
-- says which stage they are, every rank a role of its own
roles AS (
    SELECT DISTINCT coalesce('stage ' || stage, CASE WHEN messages.rank IS NOT NULL THEN 'rank ' || rank END) AS role
    FROM ranks LEFT JOIN stages USING (rank) LEFT JOIN messages USING (rank)
),
extras AS (
    SELECT unnest([
        CASE WHEN EXISTS (FROM host_ops WHERE kind = 'python') THEN 'Python frames' END,
        CASE WHEN EXISTS (FROM host_ops WHERE arguments_hash IS NOT NULL) THEN 'input shapes' END,
        CASE WHEN EXISTS (FROM memory_events) THEN 'memory events' END,
        CASE WHEN EXISTS (FROM host_ops WHERE kind = 'os') THEN 'OS calls' END
    ]) AS extra
)
SELECT
    (SELECT max(world_size) FROM ranks) AS world_size,
    (SELECT max(tick_ns) FROM ranks) AS tick_ns,
    ARRAY(SELECT rank FROM ranks ORDER BY rank) AS ranks,
    ARRAY(SELECT role FROM roles WHERE role IS NOT NULL ORDER BY role) AS roles,
    ARRAY(SELECT DISTINCT gpu_name FROM ranks WHERE gpu_name IS NOT NULL ORDER BY gpu_name) AS gpu_models,
    ARRAY(SELECT DISTINCT host FROM ranks WHERE host IS NOT NULL ORDER BY host) AS hosts,
    ARRAY(SELECT DISTINCT format FROM ranks ORDER BY format) AS formats,
    -- the PyTorch profiler writes 'undefined' for the groups of one backend per device
    ARRAY(SELECT DISTINCT backend FROM ranks WHERE backend <> 'undefined' ORDER BY backend) AS backends,
    ARRAY(SELECT DISTINCT nccl_version FROM ranks WHERE nccl_version IS NOT NULL ORDER BY nccl_version) AS nccl_versions,
    ARRAY(SELECT DISTINCT concat_ws(' ', producer, producer_version) AS profiler FROM sources ORDER BY profiler) AS profilers,
    ARRAY(
        SELECT DISTINCT {'name': name, 'value': value} AS setting FROM job_settings WHERE kind <> 'measured' ORDER BY setting
    ) AS settings,
    ARRAY(SELECT DISTINCT source FROM steps ORDER BY source) AS step_sources,
    ARRAY(SELECT extra FROM extras WHERE extra IS NOT NULL) AS extras,
    ARRAY(
        SELECT rank FROM ranks
        WHERE source_id IN (SELECT source_id FROM ingest_issues WHERE count IS NULL)
        ORDER BY rank
    ) AS in_part,
    ARRAY(
        SELECT DISTINCT kind FROM recording WHERE kind <> 'cut step' ORDER BY kind
    ) AS doubts,
    -- a type with less than a tenth of the bytes says nothing of the run; gloo's calls have ATen's names, NCCL's its own
    ARRAY(
        SELECT lower(regexp_replace(regexp_replace(regexp_replace(dtype, '^c10::| int$', ''), '^unsigned char$', 'byte'), '^signed ', '')) AS type
        FROM collectives WHERE dtype IS NOT NULL
        GROUP BY type HAVING sum(bytes) >= 0.1 * (SELECT sum(bytes) FROM collectives) ORDER BY type
    ) AS messages,
    -- with one rank there is nothing to match
    CASE WHEN (SELECT count(*) FROM ranks) > 1 THEN
        (SELECT avg(CASE WHEN collective_id IN (SELECT collective_id FROM collective_instances WHERE ranks_seen > 1) THEN 1 ELSE 0 END)
            FROM collectives)
    END AS matched,
    -- no other recording begins and ends on every rank at the same nanosecond; times before 2001 count from a boot
    ARRAY(
        SELECT [rank, first_local_ns, last_local_ns] FROM ranks WHERE first_local_ns >= 978_307_200_000_000_000 ORDER BY rank
    ) AS moments
