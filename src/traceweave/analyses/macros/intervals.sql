-- Interval arithmetic. Intervals are half-open, [start_ns, end_ns), in integer nanoseconds, all of a rank on one clock.
--
-- The length of a union in one pass: read the intervals in the order of their starts and keep the running maximum of
-- the ends seen so far, `covered_until_ns`. What an interval reaches beyond it is what it adds to the union; how far
-- the maximum reaches beyond a moment is what the sum of those additions up to that moment counts too much.

-- macro: tw_added_ns(start_ns, end_ns, covered_until_ns) | length that an interval adds to the union of those before it; covered_until_ns is the largest end among them, NULL if there are none; 0 if the interval has no end
    greatest(end_ns - greatest(start_ns, coalesce(covered_until_ns, start_ns)), 0);

-- macro: tw_overhang_ns(covered_until_ns, at_ns) | how far a union reaches beyond a moment; 0 if it ends before it or is empty
    greatest(coalesce(covered_until_ns, at_ns) - at_ns, 0);

-- macro: tw_shared_ns(start_ns, end_ns, from_ns, until_ns) | length of the part of an interval that lies in another one; 0 if they do not meet
    greatest(least(end_ns, until_ns) - greatest(start_ns, from_ns), 0);

-- rows: tw_busy_until(ops, edges) | how long each kind of work had run up to given moments, for any combination of kinds; ops: name of a relation with rank, category ('compute', 'communication' or 'memory'; 'transfer' and 'waiting' for the parts of communication where they are known), start_ns, end_ns; edges: name of one with rank, at_ns, each once; one row per edge: rank, at_ns, and the length of the union of compute_ns, comm_ns, memory_ns, of any two: busy_ns (compute or communication), compute_memory_ns, comm_memory_ns, any_ns, and compute_transfer_ns (compute or transfer), compute_parts_ns (compute, transfer or waiting)
-- the sweep is in sweeps
WITH work AS (
    SELECT
        rank,
        list(start_ns) AS starts,
        list(end_ns) AS ends,
        list(CASE category
            WHEN 'compute' THEN 1::UTINYINT WHEN 'communication' THEN 2 WHEN 'transfer' THEN 8 WHEN 'waiting' THEN 16 ELSE 4
        END) AS kinds
    FROM query_table(ops)
    GROUP BY rank
),
swept AS (
    SELECT
        e.rank,
        e.moments,
        sweep_busy_until(
            coalesce(w.starts, []::BIGINT[]), coalesce(w.ends, []::BIGINT[]), coalesce(w.kinds, []::UTINYINT[]), e.moments
        ) AS times
    FROM (SELECT rank, list(at_ns) AS moments FROM query_table(edges) GROUP BY rank) AS e
    LEFT JOIN work AS w USING (rank)
)
SELECT rank, unnest(COLUMNS(* EXCLUDE rank))
FROM (SELECT rank, moments AS at_ns, unnest(times) FROM swept);

-- rows: tw_computed_until(ops, edges) | how long compute had run up to given moments; ops: as for tw_busy_until; edges: name of a relation with rank, id, edge, at_ns; one row per edge that is not NULL: rank, id, edge, at_ns, compute_ns
-- the sweep is in sweeps
SELECT
    e.rank,
    unnest(e.ids) AS id,
    unnest(e.edges) AS edge,
    unnest(e.moments) AS at_ns,
    unnest(sweep_union_until(coalesce(o.starts, []::BIGINT[]), coalesce(o.ends, []::BIGINT[]), e.moments).union_ns) AS compute_ns
FROM (
    SELECT rank, list(id) AS ids, list(edge) AS edges, list(at_ns) AS moments
    FROM query_table(edges)
    WHERE at_ns IS NOT NULL
    GROUP BY rank
) AS e
LEFT JOIN (
    SELECT rank, list(start_ns) AS starts, list(end_ns) AS ends
    FROM query_table(ops)
    WHERE category = 'compute' AND rank IN (SELECT rank FROM query_table(edges))
    GROUP BY rank
) AS o USING (rank);
