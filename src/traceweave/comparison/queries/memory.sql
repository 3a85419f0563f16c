-- Memory at the peak over the devices of all ranks; `rows` holds the rows of the analysis memory.
SELECT
    max(peak_allocated_bytes) AS largest_allocated_bytes,
    CAST(round(avg(peak_allocated_bytes)) AS BIGINT) AS mean_allocated_bytes,
    max(peak_reserved_bytes) AS largest_reserved_bytes,
    CAST(round(avg(peak_reserved_bytes)) AS BIGINT) AS mean_reserved_bytes
FROM rows
