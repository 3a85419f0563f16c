-- rule: unequal_stages | pipeline stages that compute for longer than the others
-- topic: ranks and waiting
-- needs: ref('longest_stage')
-- finds: A stage of a pipeline computes longer than the mean of all stages by `unequal_stages` (10 %): with its loss, its embeddings or its layers it sets the pace, and the others wait for it. A stage is as long as on the fastest of its ranks, so that a single slow rank is none. Ranks with several stages (interleaved, by torch's ranges `PP:3F0`) are compared as wholes. Cost: with M micro-batches, the pipeline takes M - 1 times what its longest stage takes for one, and once what each stage takes; if all stages took the mean of theirs, it would take (M - 1) / M of (compute of the longest - mean) less.
-- try: Fewer layers on the long stage; the embedding or the loss on a stage of its own, or divided over the tensor parallel group.
-- proof: pipeline
-- shows: waits pp
SELECT
    format('{} {} longer than the mean {}', CASE WHEN n.part = 'rank' THEN tw_subject(p.ranks, 'computes', 'compute') ELSE n.computes END, n.longer, n.part) AS title,
    p.ranks,
    p.cost_ns,
    p.scenario,
    format('{} {} per {}, {} longer than the mean of the {}s ({}). The pipeline goes at its pace',
        n.computes, tw_time(p.busy_ns), s.unit, n.longer, n.part, tw_time(p.mean_ns)) AS evidence,
    format('Move layers to the other {}s, so that all take {}', n.part, tw_time(p.mean_ns))
    || CASE n.place
        WHEN 'last' THEN '. Divide the loss and the output layer over the tensor parallel group, or give the last stage fewer layers for them'
        WHEN 'first' THEN '. Count the embedding as layers of the first stage'
        ELSE ''
    END AS advice
FROM {{ ref('longest_stage') }} AS p CROSS JOIN {{ ref('mean_step') }} AS s
LEFT JOIN {{ ref('stages_held') }} AS h ON h.rank = p.ranks[1]
CROSS JOIN LATERAL (
    SELECT
        if(h.rank IS NULL, 'stage', 'rank') AS part,
        tw_percent(p.busy_ns / p.mean_ns - 1) AS longer,
        CASE WHEN if(part = 'rank', h.held[-1] = h.last, p.stage = p.stages - 1) THEN 'last' WHEN p.stage = 0 THEN 'first' END AS place,
        CASE
            WHEN part = 'rank' THEN tw_subject(p.ranks, 'with stages ' || array_to_string(h.held, ', ') || ' computes', 'with stages ' || array_to_string(h.held, ', ') || ' compute')
            WHEN place IS NULL THEN format('Stage {} of {} computes', p.stage, p.stages)
            ELSE format('The {} stage of {} computes', place, p.stages)
        END AS computes
) AS n
