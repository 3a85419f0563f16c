-- The host call that put GPU work into a stream. Correlation ids are counted per process. Class 67 rows (backtraces)
-- repeat the id of the call that they explain.
CREATE OR REPLACE TEMP TABLE nsys_launches AS
SELECT
    process, correlationId, arg_min(op_id, start) AS op_id, arg_min(globalTid, start) AS thread,
    arg_min(tid, start) AS tid, min(start) AS start, min(start_local_ns) AS start_local_ns
FROM nsys_cupti_activity_kind_runtime
WHERE coalesce(eventClass, 0) IN (0, 1) AND correlationId <> 0
GROUP BY ALL;
