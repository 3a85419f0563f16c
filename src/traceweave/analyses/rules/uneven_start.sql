-- rule: uneven_start | ranks that began to record at different moments
-- topic: what costs no time
-- finds: Ranks wait for `min_share` of a step or more in the first collective of a group: they began recording, or the step, at different times. That waiting counts in no other finding.
-- try: Start the profiler at the same step on every rank, after a barrier.
-- proof: exposed_comm
-- param: min_share
SELECT
    'Ranks began recording at different times' AS title,
    format('Ranks began recording at different times: in the first collective of their groups they wait {} on average, which counts in no other finding',
        tw_time(e.start_ns * s.windows / s.ranks)) AS evidence,
    'Start the profiler at the same step on every rank, after a barrier' AS advice
FROM {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s
WHERE e.start_ns >= {{ param('min_share') }} * s.step_ns
