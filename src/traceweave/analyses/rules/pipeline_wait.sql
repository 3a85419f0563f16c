-- rule: pipeline_wait | pipeline stages waiting for each other
-- topic: ranks and waiting
-- finds: Waiting in sends, recvs and in collectives over several stages of a pipeline: its bubble, which `pipeline` measures. Always `info`: the schedule makes most of it. Where the other side of a message is not known (gloo's traces do not say to which rank it goes, or that rank was not recorded), waiting and transfer cannot be told apart: all of the send or recv that no compute hides counts here, and the evidence says so. Cost: mean over the ranks.
-- try: More micro-batches, an interleaved schedule, evenly filled stages.
-- proof: pipeline
SELECT
    e.staged_ns + e.one_sided_ns AS cost_ns,
    'info' AS severity,
    CASE
        WHEN e.one_sided_ns = 0 THEN format('Stages of the pipeline wait for each other {} per {}, mean over the ranks', tw_time(e.staged_ns), s.unit)
        ELSE format('Sends and receives take {} per {} without compute, mean over the ranks. Waiting in them for the other stage is the'
            ' bubble of a pipeline; how much is transfer cannot be told, as their other sides are not known',
            tw_time(e.staged_ns + e.one_sided_ns), s.unit)
    END AS evidence,
    'More micro-batches per step, an interleaved schedule, evenly filled stages' AS advice
FROM shared_exposure() AS e CROSS JOIN shared_mean_step() AS s
WHERE e.staged_ns + e.one_sided_ns > 0
