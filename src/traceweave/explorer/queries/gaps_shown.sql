-- Gaps of a rank that are long enough to be seen, the longest first.
WITH shown AS (
    FROM memory.explorer.gaps
    WHERE rank = $rank AND start_ns < $until_ns AND start_ns + duration_ns > $from_ns AND duration_ns >= $least_ns
    ORDER BY duration_ns DESC, start_ns
    LIMIT $most
)
SELECT start_ns, duration_ns, cause AS name, coalesce(host_op, '') AS what FROM shown ORDER BY start_ns
