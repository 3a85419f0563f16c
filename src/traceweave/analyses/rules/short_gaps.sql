-- rule: short_gaps | short gaps between kernels
-- topic: idling and copies
-- finds: Queued kernels take time to start, and gaps too short to have a cause.
-- try: Fewer, larger kernels; CUDA graphs.
-- proof: idle_causes
SELECT
    ranks,
    cost_ns,
    opening || ' between kernels that were queued' || details AS evidence,
    'Larger or fused kernels, CUDA graphs' AS advice
FROM shared_idling()
WHERE cause IN ('kernel_delay', 'short')
