-- rule: launch_bound | a host that launches too late
-- topic: idling and copies
-- finds: The next kernel was launched only after the device had run dry.
-- try: CUDA graphs, torch.compile, fused operators, larger batches.
-- proof: idle_causes
SELECT
    ranks,
    cost_ns,
    opening || ' because the host launches late' || details AS evidence,
    'CUDA graphs, torch.compile, fused operators, fewer Python layers; larger batches per kernel' AS advice
FROM shared_idling()
WHERE cause = 'launch_bound' AND NOT is_blamed
