-- The profiler before Kineto timed operators and ranges by events on the device, and wrote these times beside the operators',
-- under the same names, one inside the other as they are on the host. What runs on the device is known of the outermost operators:
-- ranges hold what they wait for as well. Input: new_events; only where such processes are (load.py) is this asked.
UPDATE new_events SET cat = 'gpu_user_annotation'
WHERE rowid IN (
    SELECT row
    FROM (
        SELECT
            row, is_operator,
            max(end_ns) FILTER (is_operator) OVER (
                PARTITION BY source_id, tid ORDER BY since_base_ns, end_ns DESC, row ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) >= end_ns AS is_inside
        FROM (
            SELECT
                rowid AS row, source_id, tid, since_base_ns, since_base_ns + duration_ns AS end_ns,
                -- before torch 1.7 operators had no namespace
                contains(name, '::') OR NOT bool_or(contains(name, '::')) OVER (PARTITION BY source_id) AS is_operator
            FROM new_events
            WHERE pid = 'CUDA functions' AND lane = 'span'
                AND (source_id, name) IN (SELECT (source_id, name) FROM new_events WHERE pid = 'CPU functions' AND lane = 'span')
        )
    )
    WHERE is_inside OR NOT is_operator
);
