-- How much memory is in use after each event that says so.

-- rows: tw_memory_levels() | what is allocated and reserved after each memory event: rank, device, op_id, at_ns and at_local_ns, value, address, allocated_bytes (as the allocator counts it, else the sum of the events so far: is_summed), reserved_bytes (NULL: nothing, or the trace does not say)
SELECT
    rank,
    device,
    op_id,
    at_ns,
    at_local_ns,
    value,
    address,
    coalesce(
        total_allocated_bytes,
        CAST(sum(value) OVER (PARTITION BY rank, device ORDER BY at_local_ns, op_id ROWS UNBOUNDED PRECEDING) AS BIGINT)
    ) AS allocated_bytes,
    total_allocated_bytes IS NULL AS is_summed,
    nullif(total_reserved_bytes, 0) AS reserved_bytes
FROM memory_events
WHERE value IS NOT NULL;
