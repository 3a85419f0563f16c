-- rule: launch_bound | a host that launches too late
-- topic: idling and copies
-- finds: The device was idle before the next kernel was launched, and the host was in none of the calls that other rules cover. Stalls in few steps are one_off_stall.
-- try: CUDA graphs, torch.compile, fused operators, larger batches.
-- proof: idle_causes
SELECT
    i.ranks,
    i.cost_ns,
    f.scenario,
    i.opening || ' because the host launches late' || i.details AS evidence,
    CASE
        WHEN p.is_torch AND p.is_cuda THEN 'CUDA graphs, torch.compile, fused operators, fewer Python layers; larger batches per kernel'
        WHEN p.is_cuda THEN 'CUDA graphs, fewer and larger kernels; launch ahead of the GPU'
        ELSE 'Fewer and larger kernels; launch ahead of the device'
    END AS advice
FROM shared_idling() AS i JOIN shared_idle_scenarios() AS f USING (cause) CROSS JOIN shared_program() AS p
WHERE cause = 'launch_bound' AND NOT i.is_blamed
