-- rule: device_delay | work that the GPU does not start
-- topic: idling and copies
-- finds: Launched work starts later than `kernel_delay_ns` (30 us) after the launching call returned, though nothing of this process runs: the GPU causes the delay, not the host. Not before work that was launched before the recording began, or is the first of its stream: what that waits for was not recorded. Of a rank that others wait for because of it, straggler says so. The advice names ranks that use the same device of a host, or, where no host is named, if all use the same: they may share a GPU.
-- try: One GPU per rank. Look for other processes on the GPU, work that waits for events of other streams or of the host, or more streams than the GPU has queues.
-- proof: gaps
-- shows: gaps device_delay
WITH sharing AS (
    SELECT string_agg(format('{} use device {}', tw_ranks(ranks), device), ', ' ORDER BY ranks) AS said
    FROM (
        SELECT host, device, list(rank ORDER BY rank) AS ranks
        FROM ranks
        WHERE device IS NOT NULL AND (host IS NOT NULL OR (SELECT count(DISTINCT device) FROM ranks) = 1)
        GROUP BY host, device
        HAVING count(*) > 1
    )
)
SELECT
    tw_subject(i.who, 'starts launched GPU work late', 'start launched GPU work late') AS title,
    i.ranks,
    i.cost_ns,
    f.scenario,
    i.opening || ' although work was launched, longer than the usual start latency' || i.details AS evidence,
    'Not the host: ' || coalesce(r.said || '. If that is one GPU, each waits while another runs: give every rank its own. Else look for ', 'look for ')
    || 'another process on the GPU' || CASE WHEN p.is_cuda
        THEN ' (nvidia-smi), work that waits for events, or more streams than CUDA_DEVICE_MAX_CONNECTIONS' ELSE ', or work that waits for events' END AS advice
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('program') }} AS p CROSS JOIN sharing AS r
WHERE i.cause = 'device_delay' AND NOT i.is_blamed
