-- The global ranks of the processes that NCCL's logs and its Inspector tell of -> base.nccl_communicators.rank.
-- A process is that of a trace with the same host and process id. A communicator as large as the job has all of its ranks in their
-- order, so it tells the others, if one process is confirmed so and none contradicted, or if traces have no process ids at all.
-- Host names are compared up to the first dot, as NCCL prints them; GPUs only where a process has several.
CREATE OR REPLACE TEMP TABLE nccl_members AS
SELECT
    source_id, number, place, size, coalesce(identity, format('file {}', source_id)) AS world,
    split_part(host, '.', 1) AS host, pid,
    CASE WHEN count(DISTINCT device) OVER (PARTITION BY split_part(host, '.', 1), pid) > 1 THEN device END AS gpu
FROM base.nccl_communicators;

CREATE OR REPLACE TEMP TABLE nccl_ranks AS
WITH traced AS (
    SELECT DISTINCT rank, split_part(host, '.', 1) AS host, pid FROM base.rank_sources
),
same_process AS (
    SELECT p.host, p.pid, p.gpu, t.rank
    FROM (SELECT DISTINCT host, pid, gpu FROM nccl_members) AS p
    JOIN traced AS t ON t.pid = p.pid AND coalesce(t.host = p.host, TRUE)
    -- several GPUs of one process, or the same id on several hosts: not told apart
    QUALIFY count(*) OVER (PARTITION BY p.host, p.pid) = 1 AND count(*) OVER (PARTITION BY t.rank) = 1
),
worlds AS (
    SELECT m.world, m.host, m.pid, m.gpu, m.place AS rank, p.rank AS confirmed
    FROM nccl_members AS m
    LEFT JOIN same_process AS p ON p.pid = m.pid AND p.host IS NOT DISTINCT FROM m.host
    WHERE m.size = (SELECT max(world_size) FROM base.rank_sources)
),
of_this_job AS (
    SELECT world
    FROM worlds
    GROUP BY world
    HAVING bool_and(
            CASE WHEN confirmed IS NOT NULL THEN confirmed = rank ELSE rank NOT IN (SELECT rank FROM traced WHERE pid IS NOT NULL) END
        )
        AND (count(confirmed) > 0 OR NOT EXISTS (FROM traced WHERE pid IS NOT NULL))
),
told AS (
    SELECT host, pid, gpu, rank
    FROM (SELECT DISTINCT host, pid, gpu, rank FROM worlds SEMI JOIN of_this_job USING (world))
    QUALIFY count(*) OVER (PARTITION BY rank) = 1 AND count(*) OVER (PARTITION BY host, pid, gpu) = 1
)
SELECT host, pid, gpu, any_value(rank) AS rank
FROM (FROM same_process UNION FROM told)
GROUP BY host, pid, gpu
HAVING count(*) = 1;

UPDATE base.nccl_communicators SET rank = NULL;
UPDATE base.nccl_communicators AS c SET rank = r.rank
FROM nccl_members AS m
JOIN nccl_ranks AS r ON r.pid = m.pid AND r.host IS NOT DISTINCT FROM m.host AND r.gpu IS NOT DISTINCT FROM m.gpu
WHERE c.source_id = m.source_id AND c.number = m.number;

-- What Inspector measured with times (NCCL_INSPECTOR_DUMP_VERBOSE=1) is the one operation of the same kind and size that ran on its rank then.
UPDATE base.nccl_inspected AS i SET call_id = f.call_id
FROM (
    SELECT i.source_id, i.record, k.call_id
    FROM base.nccl_inspected AS i
    JOIN base.nccl_communicators AS c USING (source_id, number)
    JOIN base.collective_calls AS k
        ON k.rank = c.rank AND k.op = i.op AND k.bytes = i.bytes
        AND k.start_local_ns < i.end_local_ns AND k.start_local_ns + k.duration_ns > i.start_local_ns
    WHERE NOT i.is_p2p
    QUALIFY count(*) OVER (PARTITION BY i.source_id, i.record) = 1 AND count(*) OVER (PARTITION BY k.call_id) = 1
) AS f
WHERE i.source_id = f.source_id AND i.record = f.record;
