-- Stretches of the critical path in a view. Those that are too short to be seen are joined with their neighbours, a stretch for
-- about as many ns as can be seen: no time on the path is empty. Its kind is that of the most of its time.
WITH seen AS (
    SELECT *, start_ns + duration_ns AS end_ns, duration_ns < $least_ns AS is_short
    FROM memory.explorer.path
    WHERE list_contains($ranks, rank) AND start_ns < $until_ns AND start_ns + duration_ns > $from_ns
),
kinds AS (
    SELECT rank, start_ns // $least_ns AS place, kind, min(start_ns) AS start_ns, max(end_ns) AS end_ns, sum(duration_ns) AS total_ns, count(*) AS pieces, any_value(what) AS what
    FROM seen
    WHERE is_short
    GROUP BY rank, place, kind
),
joined AS (
    SELECT rank, min(start_ns) AS start_ns, max(end_ns) AS end_ns, arg_max(kind, (total_ns, kind)) AS kind, sum(pieces) AS pieces, any_value(what) AS what
    FROM kinds
    GROUP BY rank, place
)
SELECT rank, start_ns, duration_ns, kind AS name, coalesce(what, '') AS what FROM seen WHERE NOT is_short
UNION ALL
SELECT rank, start_ns, end_ns - start_ns, kind, CASE WHEN pieces = 1 THEN coalesce(what, '') ELSE pieces || ' short stretches, most of their time' END FROM joined
ORDER BY rank, start_ns
