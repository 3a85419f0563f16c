-- Collectives that synchronize, on the common clock, yet ended on one rank before they started on another.
SELECT
    count(*) AS checked,
    count(*) FILTER (first_end_ns < last_start_ns) AS violated,
    max(last_start_ns - first_end_ns) FILTER (first_end_ns < last_start_ns) AS worst_ns
FROM collective_instances
WHERE ranks_seen >= 2
    AND op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
