-- The event array -> new_events, one row per event, in file order (rowid). reader.py puts in the file's number, the pipes,
-- and how times are read. Every event gets one lane, so that it is stored by exactly one statement (events.sql), or
-- counted by lost.sql. Times are still without the file's baseTimeNanoseconds: that may come after the array.

INSERT INTO new_events BY NAME
WITH json_events AS (
    SELECT * FROM read_json([$pipes], format = 'array', columns = {
        ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', id: 'VARCHAR', ts: '$time_type', dur: '$time_type', args: 'JSON'
    }, maximum_object_size = $max_bytes)
),
-- Outside these ranges (120 years around base time, 30 years of duration) a time is damage, and sums could overflow.
timed AS (
    SELECT
        * EXCLUDE (ts, dur, cat),
        -- torch.autograd.profiler, which Kineto replaced, names two processes and no categories
        lower(coalesce(cat, CASE pid WHEN 'CPU functions' THEN 'cpu_op' WHEN 'CUDA functions' THEN 'kernel' END)) AS cat,
        CASE WHEN $ts_us BETWEEN -4e15 AND 4e15 THEN $ts_ns END AS since_base_ns,
        CASE WHEN dur IS NULL THEN 0 WHEN $dur_us BETWEEN -1e15 AND 1e15 THEN $dur_ns END AS duration_ns
    FROM json_events
)
SELECT
    $source_id AS source_id, ph, cat, name, pid, tid, id, args, since_base_ns, duration_ns,
    CASE
        WHEN ph IS NULL THEN 'no phase'
        WHEN ph = 'M' THEN 'other'
        WHEN since_base_ns IS NULL THEN 'no usable timestamp'
        WHEN ph = 'X' AND duration_ns IS NULL THEN 'no usable duration'
        WHEN ph = 'X' AND duration_ns < 0 THEN 'negative duration'
        WHEN ph = 'X' THEN 'span'
        WHEN ph IN ('B', 'E') THEN 'mark'
        WHEN ph IN ('s', 't', 'f') THEN CASE WHEN cat IN ('ac2g', 'async_gpu', 'async_cpu_to_gpu') OR (cat = 'async' AND name = 'launch') THEN 'launch arrow' ELSE 'arrow' END
        WHEN ph = 'C' AND name IS NOT NULL AND json_type(args) = 'OBJECT' AND len(json_keys(args)) > 0 THEN 'counter'
        WHEN ph IN ('i', 'I') AND name = '[memory]' THEN 'memory'
        ELSE 'other'
    END AS lane
FROM timed;
