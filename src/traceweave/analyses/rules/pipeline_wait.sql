-- rule: pipeline_wait | pipeline stages waiting for each other
-- topic: ranks and waiting
-- finds: Waiting in sends, recvs and in collectives over several stages of a pipeline: its bubble, which `pipeline` measures. Always `info`: the schedule causes most of it. Where the two sides of a message are not matched (of gloo's where files do not tell that ranks are of one host, or where one was not recorded), waiting and transfer cannot be separated: the whole exposed time of the send or recv counts here, and the evidence says so. Cost: mean over the ranks.
-- try: More micro-batches, an interleaved schedule, balanced stages.
-- proof: pipeline
-- shows: waits pp
SELECT
    CASE WHEN e.staged_ns >= e.one_sided_ns THEN 'Ranks of pipeline stages wait for each other' ELSE 'Sends and receives run without compute' END AS title,
    e.staged_ns + e.one_sided_ns AS cost_ns,
    'info' AS severity,
    CASE
        WHEN e.staged_ns >= e.one_sided_ns
        THEN format('Stages of the pipeline wait for each other {} per {}, mean over the ranks', tw_time(e.staged_ns + e.one_sided_ns), s.unit)
        ELSE format('Sends and receives take {} per {} without compute, mean over the ranks. Waiting in them for the other stage is the bubble of a pipeline',
            tw_time(e.staged_ns + e.one_sided_ns), s.unit)
    END
    || CASE WHEN e.one_sided_ns = 0 THEN '' ELSE format('. How much of {} is transfer is unknown: the other sides of these messages were not matched',
        CASE WHEN e.one_sided_ns >= e.staged_ns THEN 'it' ELSE tw_time(e.one_sided_ns) || ' of that' END) END AS evidence,
    format('More micro-batches per step, {}balanced stages', CASE WHEN EXISTS (FROM {{ ref('stages_held') }}) THEN '' ELSE 'an interleaved schedule, ' END) AS advice
FROM {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s
WHERE e.staged_ns + e.one_sided_ns > 0
