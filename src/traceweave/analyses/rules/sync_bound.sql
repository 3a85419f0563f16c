-- rule: sync_bound | synchronizing with the host
-- topic: idling and copies
-- finds: The host launched late because it had waited for the device.
-- try: No `.item()`, `.cpu()` or printing in the loop; see `syncs`.
-- proof: idle_causes
SELECT
    ranks,
    cost_ns,
    opening || ' after the host waited for it' || details AS evidence,
    'Remove .item(), .cpu(), printing and synchronize from the loop, or do them every n steps: see syncs' AS advice
FROM shared_idling()
WHERE cause = 'sync' AND NOT is_blamed
