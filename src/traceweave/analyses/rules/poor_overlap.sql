-- rule: poor_overlap | poor overlap of communication
-- topic: communication
-- finds: Compute hides less than `poor_overlap` (50 %) of the transfers that could overlap with it. Left out are sends and recvs of pipelines, groups used for tensor parallelism (by their name, or because the host asks for them in a model-parallel region), groups that move at least `forward_share` of their bytes in the forward pass, and sums that a function of the backward pass asks for itself: those carry activations, which compute has to wait for. Cost: the exposed transfer of the rest, but no more than the compute there is; an upper bound, as the last bucket of a step can never be hidden, and as it includes waiting for ranks that were not recorded or whose calls were not matched (the evidence says so); never more than the run gains, by replay, without any transfer, or where DDP reduces gradients again, without these calls.
-- try: Where DDP or FSDP reduces gradients in several backward passes of an update: in the last alone. What `exposed_causes` says of most of it: a stream of its own, an earlier launch, no synchronizing call. Else DDP buckets during backward, FSDP forward and backward prefetch, all_to_all in chunks; the advice is for the kind with most of it. Smaller buckets (a quarter of the largest) and gathering one unit ahead are replayed (`bucket_mb=`, `prefetch=`), and advised only if they gain `min_share` of the step.
-- proof: exposed_comm
-- page: table-overlap
-- shows: transfers
-- param: poor_overlap DOUBLE = 0.5 | overlap is poor if compute hides less than this share of the transfers that could overlap with it
-- param: min_share
SELECT
    format('{} hides {} of the {} that could overlap', s.each_unit, h.much,
        CASE WHEN e.doubtful_hideable_ns < {{ param('min_share') }} * s.step_ns THEN 'transfers' ELSE 'communication' END) AS title,
    e.hideable_ns AS cost_ns,
    'transfers ' || e.hideable_use AS shows,
    coalesce(l.gone, 'kind=transfer times=0') AS ceiling,
    CASE WHEN e.hideable_use = 'fsdp' AND (l.once IS NOT NULL OR w.advice IS NULL) THEN 'prefetch=1' WHEN e.hideable_use = 'ddp' AND coalesce(l.once, w.advice) IS NULL THEN b.scenario END AS remedy,
    CASE e.hideable_use
        WHEN 'ddp' THEN 'DDP: smaller buckets are not known to gain anything; send less (' || l.ways || ')'
        WHEN 'fsdp' THEN coalesce(l.once, 'FSDP: gathering a unit ahead is not known to gain anything; send less (' || l.ways || ')')
    END AS otherwise,
    CASE
        WHEN e.doubtful_hideable_ns < {{ param('min_share') }} * s.step_ns THEN
            format('Compute hides {} of the transfers that could overlap with it. At most {} more per {} could be hidden',
                h.much, tw_time(e.hideable_ns), s.unit)
        ELSE format('Compute hides {} of the communication that could overlap with it, including waiting for {}. At most {} more per {} could be hidden',
            h.much, e.unseen, tw_time(e.hideable_ns), s.unit)
    END || coalesce('. ' || l.again, '. ' || w.said, '') AS evidence,
    CASE WHEN l.again IS NOT NULL THEN if(e.hideable_use = 'fsdp', 'exposed_comm', 'ddp_buckets') WHEN w.said IS NOT NULL THEN 'exposed_causes' END AS proof,
    coalesce(l.once || CASE e.hideable_use WHEN 'fsdp' THEN '. Then gather parameters a unit ahead (forward and backward prefetch)' ELSE '' END, w.advice, CASE e.hideable_use
        WHEN 'ddp' THEN 'DDP: several buckets of gradients (bucket_cap_mb), reduced during backward: see ddp_buckets'
        WHEN 'gradients' THEN 'Start the sum of each gradient during backward (async_op=True), wait for all at its end, or send less (' || l.ways || ')'
        WHEN 'fsdp' THEN 'FSDP: gather the parameters of the next unit during the compute of this one (forward and backward prefetch)' || if(s.has_gpu, ': see fsdp', '')
        WHEN 'optimizer' THEN 'Issued inside Optimizer.step: overlap the gathers and scatters of one parameter with the update of another, asynchronously'
        WHEN 'sharded' THEN 'Gather the next shards during the compute before them; scatter gradients during backward'
        WHEN 'all_to_all' THEN 'all_to_all of experts or sequences: in chunks, overlapped with compute of another chunk or micro-batch'
        ELSE 'Start them earlier and asynchronously, overlapped with compute that does not need their result: gradients during backward, parameters ahead of use'
    END) AS advice
FROM {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s LEFT JOIN {{ ref('smaller_buckets') }} AS b ON TRUE LEFT JOIN {{ ref('unhidden') }} AS w ON w.scope = 'hideable'
LEFT JOIN {{ ref('sending_less') }} AS l ON l.use = e.hideable_use
CROSS JOIN LATERAL (SELECT CASE WHEN e.hidden_share = 0 THEN 'none' ELSE tw_percent(e.hidden_share) END AS much) AS h
WHERE e.split > 0 AND e.hidden_share < {{ param('poor_overlap') }}
