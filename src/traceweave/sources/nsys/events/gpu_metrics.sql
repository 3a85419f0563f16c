-- Metrics belong to a GPU or an adapter of the node, not to a rank. The lowest byte of typeId numbers the GPU the way
-- NVIDIA does, which is not the CUDA ordinal.
INSERT INTO base.counters BY NAME
SELECT
    NULL::INTEGER AS rank,
    g.op_id,
    s.source_id,
    'gpu ' || (g.typeId & 255) AS device,
    coalesce(n.name, 'metric ' || g.metricId) AS name,
    g.timestamp + s.base_ns AS at_local_ns,
    g.value::DOUBLE AS value
FROM nsys_gpu_metrics AS g
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_gpu_metric_names AS n ON g.typeId = n.type_id AND g.metricId = n.metric_id
WHERE nsys_timely(g.timestamp);
