-- rule: nothing_to_measure | ranks without work to measure
-- topic: what costs no time
-- finds: Ranks without GPU work, in a run where others have some, and ranks without any operator: they are left out of all numbers. A truncated Kineto file lacks its kernels, which come last in it.
-- proof: breakdown
SELECT
    'warning' AS severity,
    list(rank ORDER BY rank) AS ranks,
    CASE
        WHEN count(*) = any_value(recorded) THEN 'No rank has GPU work or operators'
        ELSE format('{} of {} {} no {}: left out of all numbers here', count(*), tw_many(any_value(recorded), 'rank'),
            CASE WHEN count(*) = 1 THEN 'has' ELSE 'have' END,
            CASE WHEN EXISTS (FROM tw_timelines WHERE timeline = 'gpu') THEN 'GPU work, unlike the others' ELSE 'operators' END)
    END AS evidence,
    'Record CUDA activity (ProfilerActivity.CUDA, nsys --trace=cuda,nvtx); a truncated Kineto file lacks its kernels' AS advice
FROM (SELECT rank, count(*) OVER () AS recorded FROM ranks)
WHERE rank NOT IN (SELECT rank FROM tw_timelines)
HAVING count(*) > 0
