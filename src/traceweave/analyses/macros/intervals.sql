-- Interval arithmetic. Intervals are half-open, [start_ns, end_ns), in integer nanoseconds, all of a rank on one clock.
--
-- The length of a union in one pass: read the intervals in the order of their starts and keep the running maximum of
-- the ends seen so far, `covered_until_ns`. What an interval reaches beyond it is what it adds to the union; how far
-- the maximum reaches beyond a moment is what the sum of those additions up to that moment counts too much.

-- macro: tw_added_ns(start_ns, end_ns, covered_until_ns) | length that an interval adds to the union of those before it; covered_until_ns is the largest end among them, NULL if there are none; 0 if the interval has no end
CREATE TEMP MACRO IF NOT EXISTS tw_added_ns(start_ns, end_ns, covered_until_ns) AS
    greatest(end_ns - greatest(start_ns, coalesce(covered_until_ns, start_ns)), 0);

-- macro: tw_overhang_ns(covered_until_ns, at_ns) | how far a union reaches beyond a moment; 0 if it ends before it or is empty
CREATE TEMP MACRO IF NOT EXISTS tw_overhang_ns(covered_until_ns, at_ns) AS
    greatest(coalesce(covered_until_ns, at_ns) - at_ns, 0);

-- macro: tw_shared_ns(start_ns, end_ns, from_ns, until_ns) | length of the part of an interval that lies in another one; 0 if they do not meet
CREATE TEMP MACRO IF NOT EXISTS tw_shared_ns(start_ns, end_ns, from_ns, until_ns) AS
    greatest(least(end_ns, until_ns) - greatest(start_ns, from_ns), 0);

-- macro: tw_lines(spans) | where to sweep what would be swept in partitions: the rows of the relation named `spans` (with first_ns and last_ns, the extent of a partition) with line, and shift_ns to be added to all times, so that the partitions of a line follow each other without touching; keep the rows (MATERIALIZED) if they are used twice
CREATE TEMP MACRO IF NOT EXISTS tw_lines(spans) AS TABLE
-- DuckDB's running maximum costs up to three times as much in partitions as in one (docs/benchmarks.md, Analyses). Each has
-- its own line if their times are too far apart to add up, as those of a damaged trace can be.
SELECT
    * EXCLUDE (number, line_ns),
    CASE WHEN max(line_ns) OVER () < 4000000000000000000 THEN 0 ELSE number END AS line,
    CASE WHEN max(line_ns) OVER () < 4000000000000000000 THEN CAST(line_ns - last_ns AS BIGINT) ELSE 0 END AS shift_ns
FROM (
    SELECT
        *,
        row_number() OVER () AS number,
        sum(last_ns::HUGEINT - first_ns + 1) OVER (ROWS UNBOUNDED PRECEDING) AS line_ns
    FROM query_table(spans)
);

-- macro: tw_busy_until(ops, edges) | how long each kind of work had run up to given moments, for any combination of kinds; ops: name of a relation with rank, category ('compute', 'communication' or 'memory'), start_ns, end_ns; edges: name of one with rank, at_ns, each once; one row per edge: rank, at_ns, and the length of the union of compute_ns, comm_ns, memory_ns, of any two: busy_ns (compute or communication), compute_memory_ns, comm_memory_ns, and any_ns
CREATE TEMP MACRO IF NOT EXISTS tw_busy_until(ops, edges) AS TABLE
WITH spans AS (
    SELECT rank, min(first_ns) AS first_ns, max(last_ns) AS last_ns
    FROM (
        SELECT rank, min(start_ns) AS first_ns, max(greatest(start_ns, end_ns)) AS last_ns FROM query_table(ops) GROUP BY rank
        UNION ALL
        SELECT rank, min(at_ns), max(at_ns) FROM query_table(edges) GROUP BY rank
    )
    GROUP BY rank
),
shifts AS MATERIALIZED (
    SELECT rank, line, shift_ns FROM tw_lines('spans')
),
-- an edge is a mark without an end
marks AS (
    SELECT
        rank,
        line,
        shift_ns,
        start_ns + shift_ns AS at_ns,
        CASE WHEN category = 'compute' THEN end_ns + shift_ns END AS compute_end_ns,
        CASE WHEN category = 'communication' THEN end_ns + shift_ns END AS comm_end_ns,
        CASE WHEN category = 'memory' THEN end_ns + shift_ns END AS memory_end_ns,
        NULL AS edge_ns
    FROM query_table(ops) JOIN shifts USING (rank)
    UNION ALL
    SELECT rank, line, shift_ns, at_ns + shift_ns, NULL, NULL, NULL, at_ns + shift_ns AS edge_ns
    FROM query_table(edges) JOIN shifts USING (rank)
),
-- One sort of all ops, the edges among them. Which of an op and an edge at the same moment comes first is of no
-- consequence: what the op adds before the edge, the overhang takes away again.
swept AS (
    SELECT
        *,
        max(edge_ns) OVER before AS slot_from_ns,
        max(compute_end_ns) OVER before AS compute_until_ns,
        max(comm_end_ns) OVER before AS comm_until_ns,
        max(memory_end_ns) OVER before AS memory_until_ns
    FROM marks
    WINDOW before AS (PARTITION BY line ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
-- a slot holds the ops that start between two edges, and the edge that closes it
slots AS (
    SELECT
        rank,
        slot_from_ns,
        max(edge_ns) AS edge_ns,
        any_value(shift_ns) AS shift_ns,
        max(CASE WHEN edge_ns IS NOT NULL THEN compute_until_ns END) AS compute_until_ns,
        max(CASE WHEN edge_ns IS NOT NULL THEN comm_until_ns END) AS comm_until_ns,
        max(CASE WHEN edge_ns IS NOT NULL THEN memory_until_ns END) AS memory_until_ns,
        sum(tw_added_ns(at_ns, compute_end_ns, compute_until_ns)) AS compute_ns,
        sum(tw_added_ns(at_ns, comm_end_ns, comm_until_ns)) AS comm_ns,
        sum(tw_added_ns(at_ns, memory_end_ns, memory_until_ns)) AS memory_ns,
        sum(tw_added_ns(
            at_ns, coalesce(compute_end_ns, comm_end_ns), greatest(compute_until_ns, comm_until_ns)
        )) AS busy_ns,
        sum(tw_added_ns(
            at_ns, coalesce(compute_end_ns, memory_end_ns), greatest(compute_until_ns, memory_until_ns)
        )) AS compute_memory_ns,
        sum(tw_added_ns(
            at_ns, coalesce(comm_end_ns, memory_end_ns), greatest(comm_until_ns, memory_until_ns)
        )) AS comm_memory_ns,
        sum(tw_added_ns(
            at_ns,
            coalesce(compute_end_ns, comm_end_ns, memory_end_ns),
            greatest(compute_until_ns, comm_until_ns, memory_until_ns)
        )) AS any_ns
    FROM swept
    GROUP BY rank, slot_from_ns
),
-- from the beginning of the rank up to each edge
totals AS (
    SELECT
        rank,
        edge_ns - shift_ns AS at_ns,
        sum(compute_ns) OVER until_here - tw_overhang_ns(compute_until_ns, edge_ns) AS compute_ns,
        sum(comm_ns) OVER until_here - tw_overhang_ns(comm_until_ns, edge_ns) AS comm_ns,
        sum(memory_ns) OVER until_here - tw_overhang_ns(memory_until_ns, edge_ns) AS memory_ns,
        sum(busy_ns) OVER until_here
            - tw_overhang_ns(greatest(compute_until_ns, comm_until_ns), edge_ns) AS busy_ns,
        sum(compute_memory_ns) OVER until_here
            - tw_overhang_ns(greatest(compute_until_ns, memory_until_ns), edge_ns) AS compute_memory_ns,
        sum(comm_memory_ns) OVER until_here
            - tw_overhang_ns(greatest(comm_until_ns, memory_until_ns), edge_ns) AS comm_memory_ns,
        sum(any_ns) OVER until_here
            - tw_overhang_ns(greatest(compute_until_ns, comm_until_ns, memory_until_ns), edge_ns) AS any_ns
    FROM slots
    WINDOW until_here AS (
        PARTITION BY rank ORDER BY slot_from_ns NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT
    rank,
    at_ns,
    CAST(coalesce(compute_ns, 0) AS BIGINT) AS compute_ns,
    CAST(coalesce(comm_ns, 0) AS BIGINT) AS comm_ns,
    CAST(coalesce(memory_ns, 0) AS BIGINT) AS memory_ns,
    CAST(coalesce(busy_ns, 0) AS BIGINT) AS busy_ns,
    CAST(coalesce(compute_memory_ns, 0) AS BIGINT) AS compute_memory_ns,
    CAST(coalesce(comm_memory_ns, 0) AS BIGINT) AS comm_memory_ns,
    CAST(coalesce(any_ns, 0) AS BIGINT) AS any_ns
FROM totals
WHERE at_ns IS NOT NULL;
