-- rule: uneven_work | a rank with more work than the others
-- topic: ranks and waiting
-- needs: ref('kernel_times')
-- finds: Compute runs longer on one rank than on its like at the median by `slow_kernels` (3 %), and fewer than half of the kernel names are that much slower: it has more to do. Its like are the ranks that run what it computes longest, as often if there are any, and else all; of a pipeline those of its stage. So ranks that generate are not compared with ranks that train, and a rank that others wait for in turn is told by what it computes. Cost: how much longer, by `breakdown`. The evidence counts the names that make up 90 % of what it is longer in, and says what it does in the first. The usual reason is the share of the work: embedding tables, sequence lengths, tokens of experts. Where every rank does the same in these kernels, a GPU with a lower clock or power limit looks like this too: matrix products get slower, copies and small kernels do not. A stage of a pipeline that is one rank is left to unequal_stages, a straggler to straggler, who is late in few steps to imbalance.
-- try: Balance shards and inputs; else compare clock rates and power limits.
-- proof: rank_difference
-- shows: waits
-- param: slow_kernels
SELECT
    format('Rank {} computes {} longer', k.rank, tw_time(k.more_ns)) AS title,
    [k.rank] AS ranks,
    k.more_ns AS cost_ns,
    format('rank={} kind=compute like=median', k.rank) AS scenario,
    format('Rank {} computes {} longer per {} than {}', k.rank, tw_time(k.more_ns), s.unit, CASE WHEN s.ranks = 2 THEN 'the other' WHEN k.other IS NOT NULL THEN 'rank ' || k.other WHEN k.others < s.ranks - 1 THEN format('the {} ranks like it at the median', k.others) ELSE 'the others at the median' END)
    || CASE WHEN k.heavy BETWEEN 1 AND k.names - 1 THEN format('. 90% of what is longer is in {} of {}', k.heavy, if(s.has_gpu, k.names || ' kernel names', tw_many(k.names, 'operator'))) ELSE '' END
    || coalesce('. ' || coalesce(d.does, 'Most is in ' || tw_shortened(k.heaviest)), '')
    || CASE WHEN k.typical_share IS NOT NULL THEN format('. Half of the names are slower by {} at most', tw_percent(greatest(k.typical_share, 0))) ELSE '' END AS evidence,
    'Balance the work of these ' || if(s.has_gpu, 'kernels', 'operators') || ' (table shards, sequence lengths, experts). Where all ranks should do the same, '
    || if(s.has_gpu, 'compare clock rates and power limits of the GPUs', 'look for other load on its CPU cores') AS advice
FROM {{ ref('kernel_times') }} AS k CROSS JOIN {{ ref('mean_step') }} AS s
LEFT JOIN (FROM {{ ref('differences') }} WHERE kind IN ('kernel', 'operator')) AS d ON d.rank = k.rank AND d.name = k.heaviest
WHERE k.more_share >= {{ param('slow_kernels') }} AND coalesce(k.typical_share, 0) < {{ param('slow_kernels') }}
    AND k.rank NOT IN (SELECT rank FROM {{ ref('blame') }} WHERE is_straggler UNION ALL SELECT rank FROM {{ ref('late_in_few') }})
