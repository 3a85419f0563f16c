-- rule: sync_bound | synchronizing with the host
-- topic: idling and copies
-- finds: The host launched late because it had waited for the device.
-- try: No `.item()`, `.cpu()` or printing in the loop; see `syncs`.
-- proof: idle_causes
SELECT
    i.ranks,
    i.cost_ns,
    tw_of_ranks(i.ranks) || 'kind=sync times=0' AS scenario,
    i.opening || ' after the host waited for it' || i.details AS evidence,
    CASE
        WHEN p.is_torch THEN 'Remove .item(), .cpu(), printing and synchronize from the loop, or do them every n steps: see syncs'
        ELSE 'Synchronize less: events and streams in place of waiting for the device, asynchronous copies from pinned memory: see syncs'
    END AS advice
FROM shared_idling() AS i CROSS JOIN shared_program() AS p
WHERE i.cause = 'sync' AND NOT i.is_blamed
