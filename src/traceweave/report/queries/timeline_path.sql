-- Drawing: the critical path on the timeline's ranks, stretches of one kind in one piece, at most the 2000 longest per rank and
-- step, times from the beginning of the stretch shown; `path` holds the path whose sums `traceweave analyze critical_path
-- run.duckdb` has.
WITH marked AS (
    SELECT
        *,
        (
            rank IS DISTINCT FROM lag(rank) OVER line OR kind IS DISTINCT FROM lag(kind) OVER line
            OR start_ns IS DISTINCT FROM lag(end_ns) OVER line
        ) AS begins
    FROM path
    WINDOW line AS (ORDER BY start_ns, end_ns)
),
pieces AS (
    SELECT any_value(rank) AS rank, any_value(kind) AS kind, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM (SELECT *, sum(CAST(begins AS INTEGER)) OVER (ORDER BY start_ns, end_ns) AS piece FROM marked)
    GROUP BY piece
)
SELECT
    s.role,
    p.rank,
    p.start_ns - s.from_ns AS start_ns,
    p.end_ns - p.start_ns AS duration_ns,
    p.kind
FROM pieces AS p
JOIN shown_ranks AS r ON r.rank = p.rank
JOIN shown_steps AS s ON p.start_ns < s.until_ns AND p.end_ns > s.from_ns
QUALIFY row_number() OVER (PARTITION BY s.role, p.rank ORDER BY p.end_ns - p.start_ns DESC, p.start_ns) <= 2000
ORDER BY s.role DESC, p.rank, p.start_ns
