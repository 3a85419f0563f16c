-- rule: communication_bound | communication that nothing hides
-- topic: communication
-- finds: Transfer that no compute hides, beyond what `poor_overlap` and `read_sum` claim: where one claims some, the cost is no more than the rest, though the scenario removes all. Where DDP reduces gradients again, the scenario is that these calls, with the waiting in them, are gone. `info` below `comm_bound_share` (30 %), since tensor parallelism always has some. Where most of it is in calls of less than `small_bytes` (64 KiB), sending less does not help, and the advice differs. Where ranks of a group were not recorded it includes waiting for them, and the evidence says so (if `min_share` of the step or more); sends and recvs of pipelines are in pipeline_wait instead.
-- try: Where DDP or FSDP reduces gradients in several backward passes of an update: in the last alone. Send less, keep groups within a node, compare `bandwidth` with the peak of the links. Where ranks were not recorded, record them first. The advice fits the kind of parallelism (`used_for` of `groups`) with most of it, and to others with a third or more: DDP, FSDP, tensor parallelism, all_to_all, a pipeline, or unknown.
-- proof: bandwidth
-- shows: transfers
-- param: comm_bound_share DOUBLE = 0.3 | exposed transfer of at least this share of the step is a warning, below it is info
-- param: min_share
SELECT
    format('{} has {}{} that no compute hides', s.each_unit, l.kinds,
        CASE WHEN w.may_wait OR e.split = 0 AND NOT (e.instances > 0 AND g.ranks > 1) THEN 'communication' ELSE 'transfers' END) AS title,
    w.left_ns AS cost_ns,
    CASE WHEN w.left_ns < {{ param('comm_bound_share') }} * s.step_ns THEN 'info' END AS severity,
    coalesce(l.gone, 'kind=transfer times=0') AS scenario,
    'transfers ' || array_to_string(e.transfer_uses, ',') AS shows,
    -- which removes what poor_overlap and read_sum claim too
    CASE WHEN p.cost_ns > 0 OR e.read_ns > 0 OR l.gone IS NOT NULL THEN coalesce(l.gone, 'kind=transfer times=0') END AS ceiling,
    CASE
        WHEN e.split > 0 OR e.instances > 0 AND g.ranks > 1 THEN format('{} of each {} is {} that no compute hides{}{}',
            tw_time(w.left_ns), s.unit,
            CASE WHEN w.may_wait THEN 'communication' ELSE 'transfer' END,
            CASE WHEN p.cost_ns > 0 THEN ' or could hide' ELSE '' END,
            CASE WHEN w.may_wait THEN '. It may include waiting for ' || e.unseen ELSE '' END)
        ELSE format('{} of each {} is communication that no compute hides. It includes waiting, as {}', tw_time(e.transfer_ns), s.unit,
            CASE WHEN g.ranks = 1 THEN 'only one rank was recorded' ELSE 'its calls could not be matched with those of other ranks' END)
    END || coalesce('. ' || l.again, CASE WHEN p.cost_ns > 0 THEN '' ELSE '. ' || h.said END, '') AS evidence,
    CASE WHEN e.split = 0 THEN 'breakdown' END AS proof,
    coalesce(l.once, CASE WHEN p.cost_ns > 0 THEN NULL ELSE h.advice END, CASE WHEN e.small_share > 0.5 THEN format('Most of it is in calls of less than {}: latency or waiting, not bandwidth. {}', tw_size({{ param('small_bytes') }}), l.fewer)
    ELSE CASE WHEN g.is_partial THEN 'It may be waiting: record every rank first. ' ELSE '' END || l.advice || '. Or find out why it is slow: compare bandwidth with the links'' peak' END) AS advice
FROM {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN {{ ref('program') }} AS g
LEFT JOIN {{ ref('unhidden') }} AS h ON h.scope = 'all'
CROSS JOIN LATERAL (
    SELECT
        string_agg(kind, 'and ' ORDER BY list_position(e.transfer_uses, use)) AS kinds,
        string_agg(advice, '. ' ORDER BY list_position(e.transfer_uses, use)) AS advice,
        string_agg(fewer, '. ' ORDER BY list_position(e.transfer_uses, use)) AS fewer,
        any_value(again) AS again,
        -- of less of it, the advice is among the others
        any_value(once) FILTER (use = e.transfer_uses[1]) AS once,
        any_value(gone) FILTER (use = e.transfer_uses[1]) AS gone
    FROM {{ ref('sending_less') }}
    WHERE list_contains(e.transfer_uses, use)
) AS l
LEFT JOIN {{ rule('poor_overlap') }} AS p ON p.cost_ns >= {{ param('min_share') }} * s.step_ns
CROSS JOIN LATERAL (
    SELECT e.transfer_ns - coalesce(p.cost_ns, 0) - e.read_ns AS left_ns,
        e.doubtful_ns - least(e.doubtful_hideable_ns, coalesce(p.cost_ns, 0)) >= {{ param('min_share') }} * s.step_ns AS may_wait
) AS w
