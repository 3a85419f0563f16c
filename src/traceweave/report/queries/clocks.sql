-- How each rank's clock was brought on the common one, and how well that is known.
SELECT
    rank,
    status,
    method,
    offset_ns,
    drift_ppm,
    bound_ns,
    residual_p50_ns,
    residual_p95_ns,
    anchors
FROM clocks
ORDER BY rank, from_local_ns NULLS FIRST
