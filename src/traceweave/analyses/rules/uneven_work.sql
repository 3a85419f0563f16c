-- rule: uneven_work | a rank with more work than the others
-- topic: ranks and waiting
-- needs: ref('kernel_times')
-- finds: Compute runs longer on one rank than on the others at the median by `slow_kernels` (3 %), and fewer than half of the kernel names are that much slower: it has more to do. Cost: how much longer, by `breakdown`. The evidence counts the names that make up 90 % of what it is longer in, and says what it does in the first. The usual reason is the share of the work: embedding tables, sequence lengths, tokens of experts. Where every rank does the same in these kernels, a GPU with a lower clock or power limit looks like this too: matrix products get slower, copies and small kernels do not. Ranks of a pipeline are left to unequal_stages, stragglers that compute longer to straggler.
-- try: Balance shards and inputs; else compare clock rates and power limits.
-- proof: rank_difference
-- shows: waits
-- param: slow_kernels
SELECT
    format('Rank {} computes {} longer', k.rank, tw_time(k.more_ns)) AS title,
    [k.rank] AS ranks,
    k.more_ns AS cost_ns,
    format('rank={} kind=compute like=median', k.rank) AS scenario,
    format('Rank {} computes {} longer per {} than {}', k.rank, tw_time(k.more_ns), s.unit, CASE WHEN s.ranks = 2 THEN 'the other' ELSE 'the others at the median' END)
    || CASE WHEN k.heavy BETWEEN 1 AND k.names - 1 THEN format('. 90% of what is longer is in {} of {} kernel names', k.heavy, k.names) ELSE '' END
    || coalesce('. ' || coalesce(tw_difference(k.rank, d.kind, d.name, d.count_per_step, d.others_count, d.time_ns, d.others_ns, d.which, s.unit), 'Most is in ' || tw_shortened(k.heaviest)), '')
    || coalesce(format('. Half of the names are slower by {} at most', tw_percent(greatest(k.typical_share, 0))), '') AS evidence,
    'Balance the work of these kernels (table shards, sequence lengths, experts). Where all ranks should do the same, compare clock rates and power limits of the GPUs' AS advice
FROM {{ ref('kernel_times') }} AS k CROSS JOIN {{ ref('mean_step') }} AS s
LEFT JOIN (FROM {{ ref('differences') }} WHERE kind = 'kernel') AS d ON d.rank = k.rank AND d.name = k.heaviest
WHERE k.more_share >= {{ param('slow_kernels') }} AND coalesce(k.typical_share, 0) < {{ param('slow_kernels') }}
    AND k.rank NOT IN (SELECT rank FROM {{ ref('pipeline_stages') }})
