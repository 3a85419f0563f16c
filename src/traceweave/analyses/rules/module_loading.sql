-- rule: module_loading | code that is loaded onto the GPU
-- topic: idling and copies
-- finds: The host was loading or compiling code for the GPU in every step. Loading at first use, in few steps, is one_off_stall.
-- try: Warm up before measuring; avoid recompiling in every step (changing shapes).
-- proof: idle_causes
-- shows: gaps module_loading
SELECT
    tw_subject(i.who, 'loads code onto the GPU', 'load code onto the GPU') AS title,
    i.ranks,
    i.cost_ns,
    f.scenario,
    i.opening || ' while code is loaded onto it' || i.details AS evidence,
    CASE WHEN s.has_steps AND s.steps > 2
        THEN 'Find what loads new code in every step: kernels compiled for changing shapes, extensions that are loaded again'
        ELSE 'Warm up before recording: code is loaded when a kernel is first launched (CUDA_MODULE_LOADING=EAGER loads all at the start)'
    END AS advice
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('mean_step') }} AS s
WHERE i.cause = 'module_loading' AND NOT i.is_blamed
