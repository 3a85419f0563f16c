-- rule: sync_bound | synchronizing with the host
-- topic: idling and copies
-- finds: The host launched late because it had waited for the device.
-- try: No `.item()`, `.cpu()` or printing in the loop; see `syncs`. Less work of the host between a wait and the next launch.
-- proof: idle_causes
-- shows: gaps sync
SELECT
    tw_subject(i.who, 'launches late after waiting for the GPU', 'launch late after waiting for the GPU') AS title,
    i.ranks,
    i.cost_ns,
    f.scenario,
    i.opening || ' after the host waited for it' || i.details AS evidence,
    CASE
        WHEN p.is_torch THEN 'Remove .item(), .cpu(), printing and synchronize from the loop, or do them every n steps: see syncs. Do less on the host between a wait and the next launch'
        ELSE 'Synchronize less: events and streams in place of waiting for the device, asynchronous copies from pinned memory: see syncs. Do less on the host between a wait and the next launch'
    END AS advice
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('program') }} AS p
WHERE cause = 'sync' AND NOT i.is_blamed
