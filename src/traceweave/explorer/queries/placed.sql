-- The operations on their lanes; times count from the beginning of the run.
CREATE VIEW memory.explorer.placed AS
SELECT
    l.lane,
    l.rank,
    CAST(CASE o.category WHEN 'compute' THEN 0 WHEN 'communication' THEN 1 ELSE 2 END AS UTINYINT) AS code,
    o.* EXCLUDE (rank),
    run.base.align_by(o.start_local_ns, o.start_local_ns, l.offset_ns, l.drift_ppm, l.reference_local_ns, l.pieces)
        - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns
FROM memory.explorer.recorded AS o
JOIN memory.explorer.lanes AS l
    ON l.rank = o.rank AND l.device IS NOT DISTINCT FROM o.device AND l.stream IS NOT DISTINCT FROM o.stream;
