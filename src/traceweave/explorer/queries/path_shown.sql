-- Stretches of the critical path that are long enough to be seen, the longest first.
WITH shown AS (
    FROM memory.explorer.path
    WHERE list_contains($ranks, rank) AND start_ns < $until_ns AND start_ns + duration_ns > $from_ns AND duration_ns >= $least_ns
    ORDER BY duration_ns DESC, start_ns
    LIMIT $most
)
SELECT rank, start_ns, duration_ns, kind AS name, coalesce(what, '') AS what FROM shown ORDER BY rank, start_ns
