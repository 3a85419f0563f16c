-- rule: short_gaps | short gaps between kernels
-- topic: idling and copies
-- finds: What was launched takes its time to start, each no longer than `kernel_delay_ns`, and gaps too short to be looked into.
-- try: Fewer, larger kernels; CUDA graphs.
-- proof: idle_causes
SELECT
    ranks,
    cost_ns,
    opening || CASE cause WHEN 'short' THEN ' in gaps too short to have a cause' ELSE ' until what was launched starts' END || details AS evidence,
    'Larger or fused kernels, CUDA graphs' AS advice
FROM shared_idling()
WHERE cause IN ('kernel_delay', 'short')
