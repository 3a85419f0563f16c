-- rule: pipeline_wait | pipeline stages waiting for each other
-- topic: ranks and waiting
-- needs: ref('pipeline')
-- finds: Waiting in sends, recvs and in collectives over several stages of a pipeline: its bubble, which `pipeline` measures. `info` unless stages that compute as long with equal micro-batches, and messages that take no time, would need less than half of what it lasts in messages (`equal_ns`). Where the two sides of a message are not matched (of gloo's where files do not tell that ranks are of one host, or where one was not recorded), waiting and transfer cannot be separated: the whole exposed time of the send or recv counts here, and the evidence says so. Cost: mean over the ranks.
-- try: More micro-batches, an interleaved schedule, balanced stages; where the schedule needs less than half, micro-batches of equal cost first.
-- proof: pipeline
-- shows: waits pp
WITH messages AS (
    SELECT rank, step, sum(exposed_ns) AS exposed_ns FROM {{ ref('exposed_calls') }} WHERE is_staged GROUP BY rank, step
),
schedule AS (
    SELECT
        avg(window_ns) AS window_ns,
        avg(equal_ns) AS equal_ns,
        -- idling for another reason is no matter of the pipeline, as in an optimizer that no range tells
        2 * sum(equal_ns - busy_ns) < sum(least(window_ns - busy_ns, coalesce(m.exposed_ns, 0))) AS is_uneven
    FROM {{ ref('pipeline') }} AS p LEFT JOIN messages AS m ON m.rank = p.rank AND m.step IS NOT DISTINCT FROM p.step
    -- between two ranks an interleaved schedule looks like another one, which it is shorter than
    WHERE equal_ns IS NOT NULL AND p.rank NOT IN (SELECT rank FROM {{ ref('stages_held') }})
)
SELECT
    CASE WHEN e.staged_ns >= e.one_sided_ns THEN 'Ranks of pipeline stages wait for each other' ELSE 'Sends and receives run without compute' END AS title,
    e.staged_ns + e.one_sided_ns AS cost_ns,
    CASE WHEN NOT coalesce(p.is_uneven, FALSE) THEN 'info' END AS severity,
    CASE
        WHEN e.staged_ns >= e.one_sided_ns
        THEN format('Stages of the pipeline wait for each other {} per {}, mean over the ranks', tw_time(e.staged_ns + e.one_sided_ns), s.unit)
        ELSE format('Sends and receives take {} per {} without compute, mean over the ranks. Waiting in them for the other stage is the bubble of a pipeline',
            tw_time(e.staged_ns + e.one_sided_ns), s.unit)
    END
    || CASE WHEN e.one_sided_ns = 0 THEN '' ELSE format('. How much of {} is transfer is unknown: the other sides of these messages were not matched',
        CASE WHEN e.one_sided_ns >= e.staged_ns THEN 'it' ELSE tw_time(e.one_sided_ns) || ' of that' END) END
    || CASE WHEN p.is_uneven THEN format('. Its stages need {} from first to last compute; equal micro-batches without delays would need {}', tw_time(p.window_ns), tw_time(p.equal_ns)) ELSE '' END AS evidence,
    CASE WHEN p.is_uneven THEN 'Look for micro-batches of unequal cost (pack sequences alike), slow messages, late hosts; then more micro-batches, ' ELSE 'More micro-batches per step, ' END
    || CASE WHEN EXISTS (FROM {{ ref('stages_held') }}) THEN '' ELSE 'an interleaved schedule, ' END || 'balanced stages' AS advice
FROM {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN schedule AS p
WHERE e.staged_ns + e.one_sided_ns > 0 AND EXISTS (FROM {{ ref('pipeline') }})
