-- rule: nothing_to_measure | ranks without work to measure
-- topic: what costs no time
-- finds: Ranks without GPU work, in a run where others have some, and ranks without any operator: they are left out of all numbers. A run whose files tell of no rank. A truncated Kineto file lacks its kernels, which come last in it.
-- proof: breakdown
WITH unmeasured AS (
    SELECT
        rank, format AS source_format, launches, unread_tasks, count(*) OVER () AS recorded,
        rank IN (SELECT rank FROM recording WHERE kind = 'nothing left') AS is_damaged
    FROM ranks
    QUALIFY rank NOT IN (SELECT rank FROM tw_timelines) AND rank NOT IN (SELECT rank FROM recording WHERE is_unknown AND steps = [] AND kind = 'lost records')
),
-- what is to be switched on is not what was on, and found nothing
told AS (
    SELECT
        EXISTS (
            FROM host_ops SEMI JOIN unmeasured USING (rank) WHERE kind IN ('runtime', 'driver') AND {{ names('device_apis', 'name') }} IS NOT NULL
        ) AS has_calls,
        (
            SELECT min(name)
            FROM other_events SEMI JOIN unmeasured USING (rank)
            WHERE category = 'diagnostic' AND regexp_matches(name, '(?i)^installed cuda driver .* not supported|^no cuda events')
        ) AS diagnosed,
        (
            SELECT struct_pack(count := count(*), kinds := array_to_string(list(DISTINCT coalesce(category, 'without category') ORDER BY coalesce(category, 'without category'))[:3], ', '))
            FROM other_events SEMI JOIN (FROM unmeasured WHERE source_format = 'kineto') USING (rank)
            WHERE phase IN ('X', 'B', 'b') AND category IS DISTINCT FROM 'trace' AND NOT EXISTS (FROM host_ops)
        ) AS others
)
SELECT
    'warning' AS severity,
    tw_subject(list(rank ORDER BY rank), 'has', 'have') || CASE
        WHEN coalesce(sum(unread_tasks), 0) + coalesce(sum(launches), 0) > 0 THEN ' no readable records of GPU work'
        WHEN count(*) < any_value(recorded) AND EXISTS (FROM tw_timelines WHERE timeline = 'gpu') THEN ' no GPU work'
        ELSE ' no operators'
    END AS title,
    list(rank ORDER BY rank) AS ranks,
    CASE
        WHEN sum(unread_tasks) > 0 THEN tw_many(sum(unread_tasks), 'task') || ' of the device are of a format that is not read: nothing is known of its time'
        WHEN count(*) = any_value(recorded) AND sum(launches) > 0 THEN tw_many(sum(launches), 'call') || ' launched GPU work of which no record is there: nothing is known of its time'
        WHEN bool_and(is_damaged) THEN 'What could be read of the files has no GPU work and no operators'
        WHEN count(*) = any_value(recorded) THEN 'No rank has GPU work or operators'
            || CASE WHEN any_value(t.others.count) > 0
                THEN format(': {} of other kinds ({}) {} not read', tw_many(any_value(t.others.count), 'span'), any_value(t.others.kinds),
                    CASE WHEN any_value(t.others.count) = 1 THEN 'is' ELSE 'are' END) ELSE '' END
        ELSE format('{} of {} {} no {}: left out of all numbers here', count(*), tw_many(any_value(recorded), 'rank'),
            CASE WHEN count(*) = 1 THEN 'has' ELSE 'have' END,
            CASE WHEN EXISTS (FROM tw_timelines WHERE timeline = 'gpu') THEN 'GPU work, unlike the others' ELSE 'operators' END)
    END AS evidence,
    CASE
        WHEN bool_and(is_damaged) THEN 'A file is cut or damaged: copy it, or export the report, again'
        WHEN any_value(t.diagnosed) IS NOT NULL THEN 'CUDA was to be recorded, and the profiler says: ' || any_value(t.diagnosed)
        WHEN any_value(t.has_calls) AND coalesce(sum(launches), 0) = 0
            THEN 'CUDA calls were recorded, and none of them launches work: record a stretch in which the program works on the GPU'
        WHEN any_value(t.has_calls) AND bool_and(source_format = 'nsys')
            THEN 'CUDA calls were recorded, and nothing that the GPU did: the profiler could not collect it. See its messages, and whether it supports the driver'
        WHEN bool_and(source_format = 'nsys')
            THEN 'Record CUDA activity (nsys --trace=cuda,nvtx); operators of a job without a GPU are recorded by torch.profiler, not by nsys'
        WHEN any_value(t.others.count) > 0 THEN 'Give traces of the PyTorch profiler or of nsys: events of another program in the same format tell nothing here'
        WHEN sum(unread_tasks) > 0 THEN 'Record with a profiler whose device records are Kineto''s or nsys''s'
        ELSE 'Record CUDA activity (ProfilerActivity.CUDA, nsys --trace=cuda,nvtx), with no other profiler at the same time; a truncated Kineto file lacks its kernels'
    END AS advice
FROM unmeasured CROSS JOIN told AS t
HAVING count(*) > 0
UNION ALL
SELECT
    'warning', 'No rank was recorded', NULL,
    CASE WHEN bool_and(format = 'nccl_log') THEN 'NCCL''s logs tell what was called, not when'
        ELSE format('No process in {} has a record of what it did', tw_many(count(*), 'file')) END,
    CASE WHEN bool_and(format = 'nccl_log') THEN 'Give the traces of the ranks beside them'
        ELSE 'Record CUDA activity (ProfilerActivity.CUDA, nsys --trace=cuda,nvtx)' END
FROM {{ ref('files') }}
WHERE NOT EXISTS (FROM ranks)
HAVING count(*) > 0 AND NOT bool_or(format = 'flight_recorder')
