-- shared: unhidden | what keeps most of the exposed communication from being hidden, waiting for other ranks apart
-- grain: one row per scope that one known cause has at least half of
-- needs: ref('exposed_calls')
-- column: scope VARCHAR | 'hideable': what may run beside compute; 'all': all but messages of pipelines
-- column: cause VARCHAR | as in exposed_causes; 'nothing_left' with 'input_ready_late'
-- column: share DOUBLE | its share of the exposed time, 0 to 1
-- column: said VARCHAR | that in a sentence about the communication
-- column: advice VARCHAR | what helps against it, whatever the communication is for; NULL: that depends
WITH causes AS (
    SELECT
        c.scope,
        -- either way compute waits for its result; for activations it does on any stream
        CASE WHEN x.cause = 'input_ready_late' OR x.cause = 'same_stream' AND c.is_blocking THEN 'nothing_left' ELSE x.cause END AS cause,
        sum(x.time_ns) AS time_ns,
        sum(x.time_ns) FILTER (WHERE x.cause_detail = 'the compute that follows') AS not_launched_ns,
        sum(x.time_ns) FILTER (WHERE x.cause_detail = 'its own launch') AS own_launch_ns,
        CASE WHEN min(x.cause_detail) = max(x.cause_detail) THEN format(' ({})', min(x.cause_detail)) ELSE '' END AS one_detail
    FROM {{ ref('exposed_causes') }} AS x
    JOIN (
        SELECT call_id, is_blocking, unnest(CASE WHEN is_blocking THEN ['all'] ELSE ['all', 'hideable'] END) AS scope
        FROM {{ ref('exposed_calls') }}
        WHERE NOT is_staged
    ) AS c USING (call_id)
    CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE x.cause <> 'other_ranks' AND (x.step IS NOT NULL OR NOT s.has_steps)
    GROUP BY ALL
),
shares AS (
    SELECT *, time_ns / sum(time_ns) OVER (PARTITION BY scope) AS share, 2 * not_launched_ns > time_ns AS is_host FROM causes
)
SELECT
    scope, cause, share,
    CASE cause
        WHEN 'same_stream' THEN format('{} of it is on the same stream as compute that is queued before or behind it{}', tw_percent(share), one_detail)
        WHEN 'blocked' THEN format('For {} of it, the host waits in a synchronizing call and launches no compute', tw_percent(share))
        WHEN 'launched_late' THEN CASE WHEN is_host THEN format('For {} of it, the host has not launched the compute that follows', tw_percent(share))
            ELSE format('For {} of it, it was launched late or queued behind other communication', tw_percent(share)) END
        ELSE format('For {} of it, compute waits for its result, and in this order nothing else can run beside it', tw_percent(share))
    END AS said,
    CASE cause
        WHEN 'same_stream' THEN 'Give it a stream of its own (async_op=True), with an event where compute needs its result'
        WHEN 'blocked' THEN 'No synchronizing call between it and the compute that follows: see syncs'
        WHEN 'launched_late' THEN CASE WHEN is_host THEN 'The host is late, not the network: see launches and queue_depth'
            WHEN 2 * own_launch_ns > time_ns THEN 'Launch it when its input is ready: see launched_late in exposed_causes' END
    END AS advice
FROM shares
WHERE share >= 0.5 AND cause IN ('same_stream', 'blocked', 'launched_late', 'nothing_left')
