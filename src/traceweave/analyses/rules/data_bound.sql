-- rule: data_bound | waiting for data
-- topic: idling and copies
-- finds: The host was getting the next batch.
-- try: More workers, pinned memory, prefetching.
-- proof: idle_causes
-- shows: gaps data_loading
SELECT
    tw_subject(i.who, 'waits for data', 'wait for data') AS title,
    i.ranks,
    i.cost_ns,
    f.scenario,
    i.opening || CASE WHEN s.has_gpu THEN ' while the host waits for data' ELSE ' while it waits for data' END || i.details AS evidence,
    CASE
        WHEN p.is_torch THEN format('More loader workers, {}prefetch_factor; load and transform ahead of the step', CASE WHEN s.has_gpu THEN 'pin_memory, ' ELSE '' END)
        ELSE 'Read and prepare data ahead of the step, on other threads'
    END AS advice
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('program') }} AS p CROSS JOIN {{ ref('mean_step') }} AS s
WHERE cause = 'data_loading' AND NOT i.is_blamed
