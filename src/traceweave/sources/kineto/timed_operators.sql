-- The profiler before Kineto timed operators and ranges by events on the device, and wrote these times beside the operators',
-- under the same names. One is inside the other there as they are on the host: what ran is known of the innermost alone.
-- Input: new_events; only where such processes are (load.py) is this asked.
UPDATE new_events SET cat = 'gpu_user_annotation'
WHERE rowid IN (
    SELECT row
    FROM (
        SELECT
            rowid AS row, source_id, name, since_base_ns + duration_ns AS end_ns,
            lead(since_base_ns + duration_ns) OVER (PARTITION BY source_id, tid ORDER BY since_base_ns, duration_ns DESC, rowid) AS next_end_ns
        FROM new_events
        WHERE pid = 'CUDA functions' AND lane = 'span'
    ) AS t
    WHERE next_end_ns <= end_ns
        AND (source_id, name) IN (SELECT (source_id, name) FROM new_events WHERE pid = 'CPU functions' AND lane = 'span')
);
