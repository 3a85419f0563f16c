-- rule: communication_bound | communication that nothing hides
-- topic: communication
-- finds: Transfer that no compute hides, beyond what `poor_overlap` claims. `info` below `comm_bound_share` (30 %), since some of it is in the nature of tensor parallelism. Where ranks of a group were not recorded it includes waiting for them, and the evidence says so (if by `min_share` of the step or more); not so in sends and recvs: see pipeline_wait.
-- try: Send less, keep groups within a node, compare `bandwidth` with the peak of the links. The advice names what fits the kind of parallelism (`used_for` of `groups`) that has most of it: DDP, FSDP, tensor parallelism, all_to_all, a pipeline, or none if that is not known.
-- proof: bandwidth
-- param: comm_bound_share DOUBLE = 0.3 | transfer that no compute hides is a warning from this share of the step on, below it is information
-- param: min_share
SELECT
    e.transfer_ns - coalesce(p.cost_ns, 0) AS cost_ns,
    CASE WHEN e.transfer_ns - coalesce(p.cost_ns, 0) < $comm_bound_share * s.step_ns THEN 'info' END AS severity,
    CASE
        WHEN e.split > 0 THEN format('{} of each {} is {} that no compute hides{}{}',
            tw_time(e.transfer_ns - coalesce(p.cost_ns, 0)), s.unit,
            CASE WHEN w.may_wait THEN 'communication' ELSE 'transfer' END,
            CASE WHEN p.cost_ns > 0 THEN ' or could' ELSE '' END,
            CASE WHEN w.may_wait THEN '; waiting for ranks that were not seen may be part of it' ELSE '' END)
        ELSE format('{} of each {} is communication that no compute hides; waiting is part of it, as no other rank shows the same calls',
            tw_time(e.transfer_ns), s.unit)
    END AS evidence,
    CASE WHEN e.split = 0 THEN 'breakdown' END AS proof,
    CASE e.transfer_use
        WHEN 'ddp' THEN 'DDP: send less (gradient accumulation with no_sync, gradients in lower precision)'
        WHEN 'fsdp' THEN 'FSDP: send less (shards within a node only, fewer gathers, lower precision, larger batches)'
        WHEN 'tp' THEN 'Tensor parallelism: fewer ranks per group, all within a node, or its transfers in pieces beside the matrix products (async TP): see tp'
        WHEN 'all_to_all' THEN 'all_to_all of experts or sequences: groups within a node, lower precision'
        WHEN 'pp' THEN 'Pipeline: fewer or smaller messages (stages cut where activations are small, lower precision): see pipeline'
        ELSE 'Send less (lower precision, groups within a node)'
    END || '; or find out why it is slow: bandwidth against the links'' peak' AS advice
FROM shared_exposure() AS e CROSS JOIN shared_mean_step() AS s
LEFT JOIN rule_poor_overlap() AS p ON p.cost_ns >= $min_share * s.step_ns
CROSS JOIN LATERAL (
    SELECT e.doubtful_ns - least(e.doubtful_hideable_ns, coalesce(p.cost_ns, 0)) >= $min_share * s.step_ns AS may_wait
) AS w
