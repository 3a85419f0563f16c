-- rule: uneven_recording | ranks that recorded fewer steps
-- topic: what costs no time
-- finds: Ranks that recorded fewer steps than the others.
-- proof: steps
SELECT
    list(rank ORDER BY rank) FILTER (WHERE windows < most) AS ranks,
    format('{} recorded fewer steps than the others: {} against {}',
        tw_ranks(list(rank ORDER BY rank) FILTER (WHERE windows < most)), min(windows), max(most)) AS evidence,
    'Start and stop the profiler at the same step on every rank' AS advice
FROM (SELECT *, max(windows) OVER () AS most FROM shared_rank_windows())
HAVING count(*) FILTER (WHERE windows < most) > 0
