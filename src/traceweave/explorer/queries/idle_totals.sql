-- Time without compute of ranks in a stretch of time by its cause, as far as it lies in it.
SELECT
    cause,
    CAST(sum(least(start_ns + duration_ns, $until_ns) - greatest(start_ns, $from_ns)) AS BIGINT) AS idle_ns,
    count(*) AS gaps,
    max(duration_ns) AS longest_ns,
    list_sort(list(DISTINCT rank)) AS ranks
FROM memory.explorer.gaps
WHERE start_ns < $until_ns AND start_ns + duration_ns > $from_ns AND list_contains($ranks, rank)
GROUP BY cause
ORDER BY idle_ns DESC
