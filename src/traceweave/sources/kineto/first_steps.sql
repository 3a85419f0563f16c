-- Takes out of new_events what a recording would not have that ended sooner: what began later, but for what the device
-- then ran because of calls before.
DELETE FROM new_events AS e USING (
    WITH ends AS (SELECT unnest($1::INTEGER[]) AS source_id, unnest($2::BIGINT[]) AS end_ns),
    parted AS (
        SELECT
            e.rowid AS row_number, source_id, ph = 'M' OR since_base_ns < end_ns AS is_early, d.cat IS NOT NULL AS on_device,
            CASE WHEN h.kind IN ('runtime', 'driver') OR on_device THEN nullif(args->>'correlation', '0') END AS correlation
        FROM new_events AS e JOIN ends USING (source_id)
        LEFT JOIN host_categories AS h ON e.cat = h.cat
        LEFT JOIN device_categories AS d ON e.cat = d.cat
    ),
    launched AS (SELECT DISTINCT source_id, correlation FROM parted WHERE is_early AND NOT on_device)
    SELECT row_number
    FROM parted AS p LEFT JOIN launched AS l ON p.source_id = l.source_id AND p.correlation = l.correlation AND p.on_device
    WHERE NOT coalesce(is_early, FALSE) AND l.correlation IS NULL
) AS later
WHERE e.rowid = later.row_number
