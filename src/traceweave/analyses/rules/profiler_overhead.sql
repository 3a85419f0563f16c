-- rule: profiler_overhead | the profiler's own overhead
-- topic: idling and copies
-- finds: The profiler's records of its own overhead cover most of the time before work was launched: without the profiler the run is faster by that.
-- try: Record less: no stacks, no shapes, fewer steps.
-- proof: idle_causes
-- shows: gaps profiler_overhead
SELECT
    tw_subject(who, 'waits for the profiler', 'wait for the profiler') AS title,
    ranks,
    cost_ns,
    opening || ' while the profiler writes out what it recorded' || details AS evidence,
    'It only occurs with the profiler: record less (no stacks, no shapes), or ignore these gaps' AS advice
FROM {{ ref('idling') }}
WHERE cause = 'profiler_overhead'
