-- rule: short_gaps | short gaps between kernels
-- topic: idling and copies
-- finds: Start latency of launched work, each at most `kernel_delay_ns`, and gaps too short to be analyzed. Silent where the gaps are at most two ticks of the trace: gaps of 2 us in a trace in whole microseconds.
-- try: Fewer, larger kernels; CUDA graphs where work repeats.
-- proof: idle_causes
SELECT
    tw_subject(i.who, 'idles in short gaps between kernels', 'idle in short gaps between kernels') AS title,
    i.ranks,
    i.cost_ns,
    i.opening || CASE i.cause WHEN 'short' THEN ' in gaps too short to classify' ELSE ' in the normal start latency of its work' END || i.details AS evidence,
    CASE WHEN p.is_cuda AND p.repeats AND NOT p.is_graphed THEN 'Larger or fused kernels, CUDA graphs' ELSE 'Larger or fused kernels' END AS advice
FROM {{ ref('idling') }} AS i CROSS JOIN {{ ref('program') }} AS p
WHERE i.cause IN ('kernel_delay', 'short') AND (p.tick_ns = 1 OR i.gap_ns > 2 * p.tick_ns)
