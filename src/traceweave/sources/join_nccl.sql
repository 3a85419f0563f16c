-- The global ranks of the processes that NCCL's logs and its Inspector tell of -> base.nccl_communicators.rank.
-- A process is that of a trace with the same host and process id. A communicator as large as the job has all of its ranks in their
-- order, so it tells the others, if one process is confirmed so and none contradicted, or if traces have no process ids at all.
-- Host names are compared up to the first dot, as NCCL prints them.
CREATE OR REPLACE TEMP TABLE nccl_ranks AS
WITH processes AS (
    SELECT DISTINCT host, split_part(host, '.', 1) AS short_host, pid, device FROM base.nccl_communicators
),
traced AS (
    SELECT DISTINCT rank, split_part(host, '.', 1) AS short_host, pid FROM base.rank_sources
),
same_process AS (
    SELECT p.host, p.pid, p.device, t.rank
    FROM processes AS p
    JOIN traced AS t ON t.pid = p.pid AND coalesce(t.short_host = p.short_host, TRUE)
    -- several GPUs of one process, or the same id on several hosts: not told apart
    QUALIFY count(*) OVER (PARTITION BY p.host, p.pid) = 1 AND count(*) OVER (PARTITION BY t.rank) = 1
),
worlds AS (
    SELECT coalesce(c.identity, format('file {}', c.source_id)) AS world, c.host, c.pid, c.device, c.place AS rank, p.rank AS confirmed
    FROM base.nccl_communicators AS c
    LEFT JOIN same_process AS p ON p.pid = c.pid AND p.host IS NOT DISTINCT FROM c.host AND p.device IS NOT DISTINCT FROM c.device
    WHERE c.size = (SELECT max(world_size) FROM base.rank_sources)
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
    SELECT DISTINCT host, pid, device, rank
    FROM worlds SEMI JOIN of_this_job USING (world)
),
alone AS (
    FROM told QUALIFY count(*) OVER (PARTITION BY rank) = 1 AND count(*) OVER (PARTITION BY host, pid, device) = 1
)
SELECT host, pid, device, any_value(rank) AS rank
FROM (FROM same_process UNION FROM alone)
GROUP BY host, pid, device
HAVING count(*) = 1;

UPDATE base.nccl_communicators AS c SET rank = r.rank
FROM nccl_ranks AS r
WHERE c.pid = r.pid AND c.host IS NOT DISTINCT FROM r.host AND c.device IS NOT DISTINCT FROM r.device;
