-- When some ranks did not compute, where that is long enough to be seen, of each the longest first.
WITH shown AS (
    FROM memory.explorer.gaps
    WHERE list_contains($ranks, rank) AND start_ns < $until_ns AND start_ns + duration_ns > $from_ns AND duration_ns >= $least_ns
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY duration_ns DESC, start_ns) <= $most
)
SELECT rank, start_ns, duration_ns, cause AS name, coalesce(host_op, '') AS what FROM shown ORDER BY rank, start_ns
