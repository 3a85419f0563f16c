-- Samples of network adapters and switches.

INSERT INTO base.counters BY NAME
WITH
samples AS (
    SELECT *, 'nic ' AS adapter FROM nsys_net_nic_metric
    UNION ALL BY NAME SELECT *, 'switch ' AS adapter FROM nsys_net_ib_switch_metric
)
SELECT
    NULL::INTEGER AS rank,
    m.op_id,
    s.source_id,
    m.adapter || m.globalId || coalesce(' port ' || m.portId, '') AS device,
    coalesce(n.name, 'metric ' || m.metricsIdx) AS name,
    m.start + s.base_ns AS at_local_ns,
    m.value::DOUBLE AS value,
    n.unit
FROM samples AS m
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_network_metric_names AS n ON m.metricsListId = n.list_id AND m.metricsIdx = n.metric_id
WHERE nsys_timely(m.start);
