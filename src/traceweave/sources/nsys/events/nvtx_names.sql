-- What NVTX's domains and categories are called, asked before their ranges are told apart.

CREATE OR REPLACE TEMP TABLE nsys_nvtx_domains AS
SELECT nsys_process(n.globalTid) AS process, n.domainId AS domain_id, any_value(coalesce(n.text, s.value)) AS name
FROM nsys_nvtx_events AS n
LEFT JOIN nsys_strings AS s ON n.textId = s.id
WHERE n.eventType = 75
GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE nsys_nvtx_categories AS
SELECT
    nsys_process(n.globalTid) AS process,
    n.domainId AS domain_id,
    n.category,
    any_value(coalesce(n.text, s.value)) AS name
FROM nsys_nvtx_events AS n
LEFT JOIN nsys_strings AS s ON n.textId = s.id
WHERE n.eventType = 33
GROUP BY ALL;
