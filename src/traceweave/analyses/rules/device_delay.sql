-- rule: device_delay | work that the GPU does not start
-- topic: idling and copies
-- finds: Launched work starts later than `kernel_delay_ns` (30 us) after the launching call returned, though nothing of this process runs: the GPU causes the delay, not the host. Not before work that was launched before the recording began, or is the first of its stream: what that waits for was not recorded. Of a rank that others wait for because of it, straggler says so.
-- try: One GPU per rank. Look for other processes on the GPU, work that waits for events of other streams or of the host, or more streams than the GPU has queues.
-- proof: gaps
-- shows: gaps device_delay
SELECT
    tw_subject(i.who, 'starts launched GPU work late', 'start launched GPU work late') AS title,
    i.ranks,
    i.cost_ns,
    f.scenario,
    i.opening || ' although work was launched, longer than the usual start latency' || i.details AS evidence,
    -- numbers of devices are those inside a process: the same one twice is no proof that ranks share a GPU
    'Not the host' || CASE WHEN s.are_several THEN '' ELSE ' nor another stream' END || ': '
    || CASE WHEN (SELECT count(*) > count(DISTINCT (host, device)) FROM ranks WHERE device IS NOT NULL) THEN 'see that every rank has a GPU of its own. Else look for' ELSE 'look for' END
    || ' another process on the GPU' || CASE WHEN p.is_cuda THEN ' (nvidia-smi)' ELSE '' END
    -- events are those of other streams
    || CASE WHEN NOT s.are_several THEN '' WHEN p.is_cuda
        THEN ', work that waits for events, or more streams than CUDA_DEVICE_MAX_CONNECTIONS' ELSE ', or work that waits for events' END AS advice
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('program') }} AS p
-- an event may be one of another device or context too
CROSS JOIN (
    SELECT coalesce(bool_or(streams > 1 OR unknown), FALSE) AS are_several
    FROM (SELECT count(DISTINCT (device, context, stream)) AS streams, bool_or(stream IS NULL) AS unknown FROM gpu_ops GROUP BY rank)
) AS s
WHERE i.cause = 'device_delay' AND NOT i.is_blamed
