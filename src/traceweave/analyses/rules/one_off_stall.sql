-- rule: one_off_stall | a stall in few steps
-- topic: idling and copies
-- finds: The GPU idles for one cause in at most a third of the steps (three at least) so much longer than in the others (by `stall_share` of the mean step) that this is most of its idle time for that cause: memory that is freed and allocated again, code loaded at first use, a batch that came late. Compilation has a rule of its own; of a rank that others wait for, mostly in these steps, straggler or imbalance tells. Idle time of the other steps for the same cause is in that cause's own rule. Cost: the excess of these steps, spread over all steps.
-- try: A one-off stall is not steady overhead: warm up before measuring, or find out why it recurred.
-- proof: slow_steps
-- shows: steps
WITH stalled AS (
    SELECT
        *,
        coalesce(
            tw_subject(stalled_ranks, 'stalls', 'stall') || ' ' || CASE WHEN starts_with(stalled_which, 'in every') THEN often WHEN len(stalled_steps) = 1 THEN stalled_which ELSE 'in few steps' END,
            CASE
                WHEN starts_with(stalled_which, 'in every') THEN 'E' || often[2:] || ' idles'
                WHEN len(stalled_steps) = 1 THEN format('Step {} idles', stalled_steps[1])
                ELSE format('{} of {} steps idle', len(stalled_steps), steps)
            END || format(' {} longer', tw_time(stalled_for_ns))
        ) AS subject
    FROM (SELECT *, split_part(stalled_which[4:], ' from ', 1) AS often FROM {{ ref('idling') }})
    WHERE stalled_steps IS NOT NULL AND cause <> 'compilation'
),
-- those whose stall others wait for at least half as long: that is told of the late rank, and replayed if it is late launches
waited_for AS (
    SELECT s.cause, l.rank
    FROM stalled AS s JOIN {{ ref('late_steps') }} AS l ON list_contains(s.stalled_ranks, l.rank) JOIN {{ ref('blame') }} AS b ON b.rank = l.rank
    WHERE (b.is_straggler OR l.rank IN (SELECT rank FROM {{ ref('late_in_few') }}))
        AND (s.cause IN ('launch_bound', 'data_loading', 'device_delay') OR b.cause_detail = 'launch_bound')
    GROUP BY s.cause, l.rank
    HAVING 2 * sum(l.late_ns) FILTER (list_has_any(s.stalled_steps, [l.step, l.step - 1])) >= greatest(sum(l.late_ns), any_value(s.stalled_for_ns * len(s.stalled_steps)))
)
SELECT
    s.subject || ': ' || CASE s.cause
        WHEN 'launch_bound' THEN 'the host launches late'
        WHEN 'sync' THEN 'late after a sync'
        WHEN 'data_loading' THEN 'data comes late'
        WHEN 'allocator' THEN 'memory is reallocated'
        WHEN 'module_loading' THEN 'code is loaded'
        WHEN 'graph_capture' THEN 'a graph is captured'
        WHEN 'profiler_overhead' THEN 'the profiler writes'
        ELSE 'launched work starts late'
    END AS title,
    s.stalled_ranks AS ranks,
    s.stall_ns AS cost_ns,
    -- the first step of a recording may be the warm-up of the job, which no later one repeats
    CASE WHEN s.stalled_steps = [(SELECT min(step) FROM {{ ref('budget') }})] THEN 'warning' END AS severity,
    f.stall_scenario AS scenario,
    'steps step=' || array_to_string(s.stalled_steps, ',') AS shows,
    s.stall_opening
    || CASE s.cause
        WHEN 'launch_bound' THEN '. The host launches late there'
        WHEN 'sync' THEN '. The host launches late there, after it waited for the GPU'
        WHEN 'data_loading' THEN '. The host waits for data there'
        WHEN 'allocator' THEN '. The host allocates or frees GPU memory there'
        WHEN 'module_loading' THEN '. Code is loaded onto the GPU there'
        WHEN 'graph_capture' THEN '. The host captures a graph there, and what it launches does not run'
        WHEN 'profiler_overhead' THEN '. The profiler writes out what it recorded there'
        ELSE ' although work was launched'
    END
    || coalesce('. The host is then mostly in ' || s.stall_host_op, '') AS evidence,
    CASE s.cause
        WHEN 'data_loading' THEN CASE WHEN contains(s.stall_host_op, 'SingleProcessDataLoaderIter') THEN 'Find out why this batch came late: storage or a shuffle; load on workers (num_workers)'
            ELSE format('Find out why this batch came late: storage, a shuffle or workers that start again{}; prefetch more batches', CASE WHEN p.is_torch THEN ' (persistent_workers=True)' ELSE '' END) END
        WHEN 'allocator' THEN 'Memory was freed and allocated again: in the first steps the cache still grows. Later it was full or fragmented, and was flushed'
            || CASE WHEN p.is_torch THEN ' (leave memory free, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, no empty_cache())' ELSE '' END
        WHEN 'module_loading' THEN 'Code is loaded at its first use: warm up before measuring, CUDA_MODULE_LOADING=EAGER'
        WHEN 'graph_capture' THEN 'Capture graphs before measuring'
        WHEN 'profiler_overhead' THEN 'It only occurs with the profiler: ignore these steps'
        WHEN 'device_delay' THEN 'Not the host: look for another process on the GPU at that moment, or work that waits for events'
        ELSE 'It does not happen in every step: look for compilation, checkpoints, evaluation, logging, garbage collection; warm up before measuring'
    END AS advice
FROM stalled AS s LEFT JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('program') }} AS p
WHERE NOT coalesce(list_has_all((SELECT list(w.rank) FROM waited_for AS w WHERE w.cause = s.cause), s.stalled_ranks), FALSE)
