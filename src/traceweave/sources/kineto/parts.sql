-- The processes of one file, by pid, with what tells whose they are. Input: new_events, host_categories, device_categories.
SELECT
    e.pid,
    count(*) FILTER (WHERE h.kind IS NOT NULL) AS on_host,
    count(*) FILTER (WHERE d.kind IS NOT NULL) AS on_device,
    min(e.rowid) FILTER (WHERE e.ph <> 'M') AS first_row,
    max(e.rowid) FILTER (WHERE e.ph <> 'M') AS last_row,
    CASE WHEN min(e.args->>'rank') = max(e.args->>'rank') THEN TRY_CAST(min(e.args->>'rank') AS INTEGER) END AS stated_rank,
    coalesce(list(DISTINCT coalesce(e.args->>'name', e.args->>'labels')) FILTER (WHERE e.ph = 'M' AND e.name IN ('process_name', 'process_labels')), []) AS names
FROM new_events AS e
LEFT JOIN host_categories AS h ON e.cat = h.cat
LEFT JOIN device_categories AS d ON e.cat = d.cat
WHERE e.source_id = $source_id AND e.pid IS NOT NULL
GROUP BY e.pid
ORDER BY first_row, e.pid
