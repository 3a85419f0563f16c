-- rule: poor_overlap | poor overlap of communication
-- topic: communication
-- finds: Compute hides less than `poor_overlap` (50 %) of the transfers that may run beside it. Left out are sends and recvs, groups used for tensor parallelism (by their name, or because the host asks for them in a model-parallel region), and groups that move at least `forward_share` of their bytes in the forward pass: those carry activations, which compute has to wait for. Cost: the exposed transfer of the rest, but no more than the compute there is; an upper bound, as the last bucket of a step can never be hidden, and as waiting for ranks that were not recorded is part of it (the evidence says so).
-- try: DDP buckets during backward, FSDP forward and backward prefetch, all_to_all in parts; the advice is for the kind that has most of it.
-- proof: exposed_comm
-- param: poor_overlap DOUBLE = 0.5 | overlap is poor if compute hides less than this share of the transfers that may run beside it
-- param: min_share
SELECT
    e.hideable_ns AS cost_ns,
    CASE
        WHEN e.doubtful_hideable_ns < $min_share * s.step_ns THEN
            format('Compute hides {} of the transfers that may run beside it; {} more per {} could, at most',
                tw_percent(e.hidden_share), tw_time(e.hideable_ns), s.unit)
        ELSE format('Compute hides {} of the communication that may run beside it, waiting for ranks that were not seen included; {} more per {} could, at most',
            tw_percent(e.hidden_share), tw_time(e.hideable_ns), s.unit)
    END AS evidence,
    CASE e.hideable_use
        WHEN 'ddp' THEN 'DDP: several buckets of gradients (bucket_cap_mb), reduced during backward: see ddp_buckets'
        WHEN 'fsdp' THEN 'FSDP: gather the parameters of the next unit during the compute of this one (forward and backward prefetch): see fsdp'
        WHEN 'optimizer' THEN 'Issued inside Optimizer.step: start the gathers and scatters of one parameter beside the update of another, asynchronously'
        WHEN 'sharded' THEN 'Gather the shards that come next during the compute of what comes before; scatter gradients during backward'
        WHEN 'all_to_all' THEN 'all_to_all of experts or sequences: in parts, beside compute of another part or micro-batch'
        ELSE 'Start them earlier and asynchronously, beside compute that does not need their result: gradients during backward, parameters ahead of use'
    END AS advice
FROM shared_exposure() AS e CROSS JOIN shared_mean_step() AS s
WHERE e.split > 0 AND e.hidden_share < $poor_overlap
