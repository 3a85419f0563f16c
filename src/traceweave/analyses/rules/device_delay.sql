-- rule: device_delay | work that the GPU does not start
-- topic: idling and copies
-- finds: Launched work starts later than `kernel_delay_ns` (30 us) after the launching call returned, though nothing of this process runs: the GPU causes the delay, not the host. Where most of it is before work that was launched before the recording began, it says so.
-- try: Look for other processes on the GPU, work that waits for events of other streams or of the host, or more streams than the GPU has queues.
-- proof: gaps
SELECT
    i.ranks,
    i.cost_ns,
    f.scenario,
    i.opening || ' although work was launched, longer than the usual start latency' || i.details AS evidence,
    CASE WHEN i.is_queued_before THEN 'Record more steps: that work was queued before the recording began, and what it waited for was not recorded'
    ELSE 'Not the host: look for another process on the GPU' || CASE WHEN p.is_cuda
        THEN ' (nvidia-smi), work that waits for events, or more streams than CUDA_DEVICE_MAX_CONNECTIONS' ELSE ', or work that waits for events' END END AS advice
FROM shared_idling() AS i JOIN shared_idle_scenarios() AS f USING (cause) CROSS JOIN shared_program() AS p
WHERE cause = 'device_delay'
