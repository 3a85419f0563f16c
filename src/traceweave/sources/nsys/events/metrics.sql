-- Metrics belong to a GPU, an adapter or a switch of the node, not to a rank. The lowest byte of typeId numbers the GPU the
-- way NVIDIA does, which is not the CUDA ordinal.
INSERT INTO base.counters BY NAME
SELECT
    g.rank,
    g.op_id,
    g.source_id,
    'gpu ' || (g.typeId & 255) AS device,
    coalesce(n.name, 'metric ' || g.metricId) AS name,
    g.start_local_ns AS at_local_ns,
    g.value::DOUBLE AS value
FROM nsys_gpu_metrics AS g LEFT JOIN nsys_gpu_metric_names AS n USING (typeId, metricId);

INSERT INTO base.counters BY NAME
WITH samples AS (
    SELECT *, 'nic ' AS adapter FROM nsys_net_nic_metric
    UNION ALL BY NAME SELECT *, 'switch ' AS adapter FROM nsys_net_ib_switch_metric
)
SELECT
    m.rank,
    m.op_id,
    m.source_id,
    m.adapter || m.globalId || coalesce(' port ' || m.portId, '') AS device,
    coalesce(n.name, 'metric ' || m.metricsIdx) AS name,
    m.start_local_ns AS at_local_ns,
    m.value::DOUBLE AS value,
    n.unit
FROM samples AS m LEFT JOIN nsys_network_metric_names AS n USING (metricsListId, metricsIdx);
