-- rule: sync_bound | synchronizing with the host
-- topic: idling and copies
-- finds: The host launched late because it had waited for the device, and no longer than that wait explains.
-- try: No `.item()`, `.cpu()` or printing in the loop, or less of the operator that most of the waiting is in; batches from pinned memory; see `syncs`. What the waits of that operator alone cost is replayed too. Less work of the host between a wait and the next launch: where long gaps in one range are most of it, on another thread.
-- proof: idle_causes
-- shows: gaps sync
WITH waits AS (
    SELECT
        coalesce(2 * sum(wait_ns) FILTER (WHERE sort = 'write') > sum(wait_ns), FALSE) AS writes_most,
        coalesce(bool_or(calls > 0) FILTER (WHERE sort = 'write'), FALSE) AS writes,
        coalesce(bool_or(calls > 0) FILTER (WHERE sort = 'read'), FALSE) AS reads,
        CASE WHEN bool_and(is_pinned) FILTER (WHERE sort = 'write') THEN '' ELSE 'pin_memory=True and ' END || '.to(device, non_blocking=True)' AS better,
        count(DISTINCT sort) FILTER (WHERE calls > 0) > 1 AS are_several
    FROM {{ ref('device_waits') }}
),
-- the operator that most of the waiting is in
main AS (
    SELECT sort, operator
    FROM {{ ref('device_waits') }}
    QUALIFY 2 * wait_ns > sum(wait_ns) OVER () AND operator IS NOT NULL
)
SELECT
    tw_subject(i.who, 'launches late after waiting for the GPU', 'launch late after waiting for the GPU') AS title,
    i.ranks,
    i.cost_ns,
    f.scenario,
    CASE WHEN w.are_several AND m.operator IS NOT NULL THEN replace(f.scenario, 'kind=sync', format('kind=sync op={}', m.operator)) END AS remedy,
    i.opening || ' after the host waited for it' || i.details AS evidence,
    CASE
        WHEN m.sort = 'own' THEN format('Most of the waiting is in {}, which waits of its own accord: see syncs. ', tw_shortened(m.operator))
            || CASE WHEN p.repeats THEN 'Call it less, or replace it' ELSE 'If only its first call does so, warm up before recording; else call it less, or replace it' END
        WHEN p.is_torch AND w.writes_most
            THEN 'Most of the waiting is in copies to the GPU: ' || w.better || CASE WHEN w.reads THEN '. No .item() or .cpu() in every step either: see syncs' ELSE ': see syncs' END
        WHEN p.is_torch
            THEN 'Remove .item(), .cpu(), printing and synchronize from the loop, or do them every n steps: see syncs' || CASE WHEN w.writes THEN '. Copies to the GPU would wait then: ' || w.better ELSE '' END
        ELSE 'Synchronize less: events and streams in place of waiting for the device, asynchronous copies from pinned memory: see syncs'
    END || CASE
        WHEN i.host_op IS NOT NULL AND i.long_gaps IS NOT NULL
            THEN format('. Most of it is {} after a wait: move what the host does there to another thread, or do it less often', i.long_gaps)
        ELSE '. Do less on the host between a wait and the next launch'
    END AS advice
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('program') }} AS p CROSS JOIN waits AS w LEFT JOIN main AS m ON TRUE
WHERE cause = 'sync' AND NOT i.is_blamed
