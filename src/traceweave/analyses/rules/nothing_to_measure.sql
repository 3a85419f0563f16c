-- rule: nothing_to_measure | ranks without work to measure
-- topic: what costs no time
-- finds: Ranks without GPU work, in a run where others have some, and ranks without any operator: no number counts them. A Kineto file that was cut off lacks its kernels, which it ends with.
-- proof: breakdown
SELECT
    'warning' AS severity,
    list(rank ORDER BY rank) AS ranks,
    CASE
        WHEN count(*) = any_value(recorded) THEN 'No rank holds GPU work or operators'
        ELSE format('{} of {} {} no {}: no number here counts {}', count(*), tw_many(any_value(recorded), 'rank'),
            CASE WHEN count(*) = 1 THEN 'holds' ELSE 'hold' END,
            CASE WHEN EXISTS (FROM device_ops WHERE timeline = 'gpu') THEN 'GPU work, unlike the others' ELSE 'operators' END,
            CASE WHEN count(*) = 1 THEN 'it' ELSE 'them' END)
    END AS evidence,
    'Record CUDA activity (ProfilerActivity.CUDA, nsys --trace=cuda,nvtx); a Kineto file that was cut off lacks its kernels' AS advice
FROM (SELECT rank, count(*) OVER () AS recorded FROM ranks)
WHERE rank NOT IN (SELECT rank FROM device_ops)
HAVING count(*) > 0
