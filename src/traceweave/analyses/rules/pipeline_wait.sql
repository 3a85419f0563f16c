-- rule: pipeline_wait | pipeline stages waiting for each other
-- topic: ranks and waiting
-- needs: ref('pipeline')
-- finds: Waiting in sends, recvs and in collectives over several stages of a pipeline: its bubble, which `pipeline` measures. The evidence says what of it stages that compute as long would need with equal micro-batches and messages that take no time (`equal_ns`), where that is less by `min_share` (1 %) of the step; `info` unless it is less than half. Where the two sides of a message are not matched (of gloo's where files do not tell that ranks are of one host, or where one was not recorded), waiting and transfer cannot be separated: the whole exposed time of the send or recv counts here, and the evidence says so. What they wait for a rank that idles longer than the others (straggler), or would not if all stages computed as long (unequal_stages, from `warning_share` of the step on), is told of those, and does not count. Cost: mean over the ranks.
-- try: More micro-batches, an interleaved schedule, balanced stages; where the schedule needs less than half, micro-batches of equal cost first.
-- proof: pipeline
-- shows: waits pp
-- param: min_share
-- param: warning_share
WITH messages AS (
    SELECT rank, step, sum(exposed_ns) AS exposed_ns FROM {{ ref('exposed_calls') }} WHERE is_staged GROUP BY rank, step
),
-- what stages that compute as long would not wait
uneven AS (
    SELECT coalesce(max(l.cost_ns), 0) AS uneven_ns
    FROM {{ ref('longest_stage') }} AS l CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE l.cost_ns >= {{ param('warning_share') }} * s.step_ns
),
-- that, and what they wait for a rank that idles, is told of those
told AS (
    SELECT u.uneven_ns + coalesce(sum(b.staged_ns) / any_value(s.windows), 0) AS told_ns
    FROM uneven AS u LEFT JOIN {{ ref('blame') }} AS b ON b.is_straggler LEFT JOIN {{ ref('mean_step') }} AS s ON TRUE
    GROUP BY u.uneven_ns
),
schedule AS (
    SELECT
        avg(equal_ns - busy_ns) AS equal_needed_ns,
        greatest(equal_needed_ns - any_value(u.uneven_ns), 0) AS needed_ns,
        -- idling for another reason is no matter of the pipeline, as in an optimizer that no range tells
        avg(least(window_ns - busy_ns, coalesce(m.exposed_ns, 0))) AS lasts_ns
    FROM {{ ref('pipeline') }} AS p CROSS JOIN uneven AS u LEFT JOIN messages AS m ON m.rank = p.rank AND m.step IS NOT DISTINCT FROM p.step
    -- between two ranks an interleaved schedule looks like another one, which it is shorter than
    WHERE equal_ns IS NOT NULL AND p.rank NOT IN (SELECT rank FROM {{ ref('stages_held') }})
)
SELECT
    CASE WHEN e.staged_ns >= e.one_sided_ns THEN 'Ranks of pipeline stages wait for each other' ELSE 'Sends and receives run without compute' END AS title,
    e.staged_ns + e.one_sided_ns - t.told_ns AS cost_ns,
    CASE WHEN NOT u.is_most THEN 'info' END AS severity,
    CASE
        WHEN e.staged_ns >= e.one_sided_ns
        THEN CASE WHEN t.told_ns > 0 THEN 'Apart from other findings, stages' ELSE 'Stages' END
            || format(' of the pipeline wait for each other {} per {}, mean over the ranks', tw_time(e.staged_ns + e.one_sided_ns - t.told_ns), s.unit)
        ELSE format('Sends and receives take {} per {} without compute, mean over the ranks. Waiting in them for the other stage is the bubble of a pipeline',
            tw_time(e.staged_ns + e.one_sided_ns), s.unit)
    END
    || CASE WHEN e.one_sided_ns = 0 THEN '' ELSE format('. How much of {} is transfer is unknown: the other sides of these messages were not matched',
        CASE WHEN e.one_sided_ns >= e.staged_ns THEN 'it' ELSE tw_time(e.one_sided_ns) || ' of that' END) END
    || CASE WHEN u.is_told THEN format('. With equal micro-batches and no delays the schedule would need {} of {}', tw_time(p.needed_ns),
        CASE WHEN p.needed_ns <= e.staged_ns + e.one_sided_ns - t.told_ns THEN 'it' ELSE tw_time(u.left_ns) || ' of waiting and transfer' END) ELSE '' END AS evidence,
    CASE WHEN u.is_told THEN 'Look for micro-batches of unequal cost (pack sequences alike), slow messages, late hosts; ' || if(u.is_most, 'then ', '') || 'more micro-batches, '
        ELSE 'More micro-batches per step, ' END
    || CASE WHEN EXISTS (FROM {{ ref('stages_held') }}) THEN '' ELSE 'an interleaved schedule, ' END || 'balanced stages' AS advice
FROM {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN schedule AS p CROSS JOIN told AS t
CROSS JOIN LATERAL (
    SELECT
        p.lasts_ns - t.told_ns AS left_ns,
        coalesce(left_ns - p.needed_ns >= {{ param('min_share') }} * s.step_ns, FALSE) AS is_told,
        is_told AND 2 * p.equal_needed_ns < left_ns + p.equal_needed_ns - p.needed_ns AS is_most
) AS u
WHERE e.staged_ns + e.one_sided_ns - t.told_ns >= 1 AND EXISTS (FROM {{ ref('pipeline') }})
