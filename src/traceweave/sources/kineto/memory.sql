-- Allocations and frees -> base.memory_events. Input: events, new_source.

INSERT INTO base.memory_events
SELECT
    (SELECT rank FROM new_source) AS rank, op_id, (SELECT source_id FROM new_source) AS source_id,
    CASE a[5] WHEN '0' THEN 'cpu' WHEN '1' THEN 'cuda:' || a[6] ELSE a[5] || ':' || a[6] END AS device,
    CASE WHEN TRY_CAST(a[1] AS BIGINT) < 0 THEN 'free' ELSE 'alloc' END AS name,
    start_ns AS at_local_ns,
    TRY_CAST(a[1] AS BIGINT) AS value,
    TRY_CAST(a[2] AS BIGINT) AS address,
    TRY_CAST(a[3] AS BIGINT) AS total_allocated_bytes,
    TRY_CAST(a[4] AS BIGINT) AS total_reserved_bytes,
    args
FROM (
    SELECT *, json_extract_string(args, ['$.Bytes', '$.Addr', '$."Total Allocated"', '$."Total Reserved"', '$."Device Type"', '$."Device Id"']) AS a
    FROM events WHERE lane = 'memory'
);
