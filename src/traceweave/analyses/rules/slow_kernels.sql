-- rule: slow_kernels | a rank with slow kernels
-- topic: ranks and waiting
-- needs: ref('kernel_times')
-- finds: The same kernels take longer on one rank, nearly all of them: its GPU is slow. Cost: what it computes longer per step than if it took the median time of the other ranks (in a stage of a pipeline that several ranks share: of those) for each kernel name (of those that launch it as often; else for as many calls). Needs `slow_kernels` (3 %) more time in sum and for half of the names or more; and kernels with at least `slower_share` (80 %) of the time have to be slower. Whether names are slower is judged by the median of their calls, without kernels whose own durations spread more than `kernel_spread`: they do different work from call to call. Not repeated for a straggler with the cause compute.
-- try: Clock rates, power limit, temperature, ECC errors; else the shapes that rank works on.
-- proof: kernels
-- shows: ops compute
-- param: slow_kernels
-- param: slower_share
SELECT
    format('Rank {} takes {} longer for the same kernels', k.rank, tw_percent(k.longer_share)) AS title,
    [k.rank] AS ranks,
    k.excess_ns AS cost_ns,
    format('rank={} kind=compute like=median', k.rank) AS scenario,
    format('The same kernels take {} longer on rank {} than on {}, half of {} kernel names {} or more',
        tw_percent(k.longer_share), k.rank, CASE WHEN s.ranks = 2 THEN 'the other' ELSE 'the others at the median' END,
        k.names, tw_percent(k.typical_share)) AS evidence,
    'Compare clock rates, power limit, temperature and ECC errors of its GPU with the others''; else the shapes it works on' AS advice
FROM {{ ref('kernel_times') }} AS k CROSS JOIN {{ ref('mean_step') }} AS s
WHERE k.longer_share >= {{ param('slow_kernels') }} AND k.typical_share >= {{ param('slow_kernels') }} AND k.slower_share >= {{ param('slower_share') }}
