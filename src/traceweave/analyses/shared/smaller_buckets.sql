-- shared: smaller_buckets | a quarter of the largest bucket of gradients, of the group that exposes most, for what-if
-- grain: one row; none without exposed all-reduces of gradients
-- needs: ref('exposed_calls')
-- column: scenario VARCHAR | for 'traceweave what-if'
SELECT format('group={} bucket_mb={}', group_id, tw_digits(max(bytes) / 4e6)) AS scenario
FROM {{ ref('exposed_calls') }}
WHERE use = 'ddp' AND bytes > 0
GROUP BY group_id
ORDER BY sum(bare_ns) DESC, group_id
LIMIT 1
