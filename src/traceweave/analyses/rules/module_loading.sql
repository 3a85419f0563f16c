-- rule: module_loading | code loaded onto the GPU in every step
-- topic: idling and copies
-- finds: The host was loading or compiling code for the GPU in every step. Loading at first use, in few steps, is one_off_stall.
-- try: Warm up before measuring; avoid recompiling in every step (changing shapes).
-- proof: idle_causes
SELECT
    ranks,
    cost_ns,
    opening || ' while code is loaded onto it' || details AS evidence,
    'Find what loads new code in every step: kernels compiled for changing shapes, extensions that are loaded again' AS advice
FROM shared_idling()
WHERE cause = 'module_loading' AND NOT is_blamed
