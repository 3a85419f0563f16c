-- What runs between two times on some ranks; times count from the beginning of the run. DuckDB skips what lies elsewhere by the
-- least and largest start of each block of rows, so starts are bounded on the local clocks too (`low`, `high`): by an
-- operation that may have begun `short` before. Longer ones are few, and found by their length.
CREATE MACRO memory.explorer.within(from_ns, until_ns, low, high, short, chosen) AS TABLE
WITH found AS (
    FROM memory.explorer.placed
    WHERE list_contains(chosen, rank) AND start_local_ns >= low - short AND start_local_ns < high AND duration_ns <= short
    UNION ALL
    FROM memory.explorer.placed
    WHERE list_contains(chosen, rank) AND duration_ns > short AND start_local_ns < high AND start_local_ns + duration_ns >= low
)
FROM found
WHERE start_ns < until_ns AND (start_ns + duration_ns > from_ns OR start_ns >= from_ns);
