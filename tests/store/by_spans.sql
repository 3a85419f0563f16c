SELECT o.op_id,
    o.start_local_ns + c.offset_ns
        + CAST(round(c.drift_ppm * 1e-6 * (o.start_local_ns - c.reference_local_ns)) AS BIGINT),
    o.start_local_ns + o.duration_ns + c.offset_ns
        + CAST(round(
            c.drift_ppm * 1e-6 * (o.start_local_ns + o.duration_ns - c.reference_local_ns)
        ) AS BIGINT)
FROM base.{table} AS o
JOIN clock_spans AS c
    ON c.rank = o.rank
    AND o.start_local_ns >= c.from_local_ns AND o.start_local_ns < c.until_local_ns
ORDER BY ALL
