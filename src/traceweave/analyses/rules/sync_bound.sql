-- rule: sync_bound | synchronizing with the host
-- topic: idling and copies
-- finds: The host launched late because it had waited for the device, and no longer than that wait explains.
-- try: No `.item()`, `.cpu()` or printing in the loop, or less of the operator that most of the waiting is in; see `syncs`. Less work of the host between a wait and the next launch.
-- proof: idle_causes
-- shows: gaps sync
WITH waits AS (
    SELECT CASE WHEN p.kind = 'op' OR starts_with(p.name, 'aten::') THEN coalesce(c.name, p.name) END AS name, sum(h.duration_ns) AS wait_ns
    FROM host_ops AS h
    JOIN (SELECT name FROM tw_call_names WHERE waits_for IS NOT NULL) AS n USING (name)
    JOIN {{ ref('mean_step') }} AS s ON h.step IS NOT NULL OR NOT s.has_steps
    LEFT JOIN host_ops AS p ON p.op_id = h.parent_id
    -- which is how torch records the arguments of a collective, inside the operator that asks for it
    LEFT JOIN host_ops AS c ON c.op_id = p.parent_id AND p.name = 'record_param_comms'
    WHERE h.kind IN ('runtime', 'driver') AND coalesce(p.kind NOT IN ('runtime', 'driver'), TRUE)
    GROUP BY ALL
),
-- the operator that most of the waiting is in: one that reads nothing for the host waits of its own accord
own AS (
    SELECT tw_shortened(name) AS name FROM waits
    WHERE {{ names('synchronizing', 'name') }} IS NULL AND NOT contains(name, 'copy') AND 2 * wait_ns > (SELECT sum(wait_ns) FROM waits)
)
SELECT
    tw_subject(i.who, 'launches late after waiting for the GPU', 'launch late after waiting for the GPU') AS title,
    i.ranks,
    i.cost_ns,
    f.scenario,
    i.opening || ' after the host waited for it' || i.details AS evidence,
    CASE
        WHEN o.name IS NOT NULL THEN format('Most of the waiting is in {}, which waits of its own accord: see syncs. Call it less, or replace it. Do less on the host between a wait and the next launch', o.name)
        WHEN p.is_torch THEN 'Remove .item(), .cpu(), printing and synchronize from the loop, or do them every n steps: see syncs. Do less on the host between a wait and the next launch'
        ELSE 'Synchronize less: events and streams in place of waiting for the device, asynchronous copies from pinned memory: see syncs. Do less on the host between a wait and the next launch'
    END AS advice
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('program') }} AS p LEFT JOIN own AS o ON TRUE
WHERE cause = 'sync' AND NOT i.is_blamed
