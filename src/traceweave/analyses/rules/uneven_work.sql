-- rule: uneven_work | a rank with more work than the others
-- topic: ranks and waiting
-- needs: ref('kernel_times')
-- finds: The same kernels take longer on one rank by `slow_kernels` (3 %) in sum, but fewer than half of the kernel names do: it has more to do in some of them. The evidence counts the names that make up 90 % of the excess, and names the first. Cost as for slow_kernels. The usual reason is the share of the work: embedding tables, sequence lengths, tokens of experts. Where every rank does the same in these kernels, a GPU with a lower clock or power limit looks like this too: matrix products get slower, copies and small kernels do not.
-- try: Balance shards and inputs; else compare clock rates and power limits.
-- proof: kernels
-- shows: waits
-- param: slow_kernels
SELECT
    format('Rank {} spends {} more in {} of {} kernels', k.rank, tw_time(k.excess_ns), k.heavy, k.names) AS title,
    [k.rank] AS ranks,
    k.excess_ns AS cost_ns,
    format('rank={} kind=compute like=median', k.rank) AS scenario,
    format('Rank {} spends {} more per {} in the same kernels than {}. 90% of that is in {} of {} kernel names, most in {}. Half of the names are slower by {} at most',
        k.rank, tw_time(k.excess_ns), s.unit, CASE WHEN s.ranks = 2 THEN 'the other' ELSE 'the others at the median' END,
        k.heavy, k.names, tw_shortened(k.heaviest), tw_percent(greatest(k.typical_share, 0))) AS evidence,
    'Balance the work of these kernels (table shards, sequence lengths, experts). Where all ranks should do the same, compare clock rates and power limits of the GPUs' AS advice
FROM {{ ref('kernel_times') }} AS k CROSS JOIN {{ ref('mean_step') }} AS s
WHERE k.typical_share < {{ param('slow_kernels') }}
