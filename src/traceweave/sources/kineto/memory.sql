-- Allocations and frees -> base.memory_events. Input: events.

INSERT INTO base.memory_events BY NAME
SELECT
    rank, op_id, source_id,
    CASE a."Device Type" WHEN '0' THEN 'cpu' WHEN '1' THEN 'cuda:' || a."Device Id" WHEN '6' THEN 'hip:' || a."Device Id" ELSE a."Device Type" || ':' || a."Device Id" END AS device,
    CASE WHEN TRY_CAST(a.Bytes AS BIGINT) < 0 THEN 'free' ELSE 'alloc' END AS name,
    start_ns AS at_local_ns,
    TRY_CAST(a.Bytes AS BIGINT) AS value,
    TRY_CAST(a.Addr AS BIGINT) AS address,
    TRY_CAST(a."Total Allocated" AS BIGINT) AS total_allocated_bytes,
    TRY_CAST(a."Total Reserved" AS BIGINT) AS total_reserved_bytes,
    args
FROM (
    SELECT
        *,
        json_transform(args, '{
            "Bytes": "VARCHAR", "Addr": "VARCHAR", "Total Allocated": "VARCHAR", "Total Reserved": "VARCHAR",
            "Device Type": "VARCHAR", "Device Id": "VARCHAR"
        }') AS a
    FROM events WHERE lane = 'memory'
);
