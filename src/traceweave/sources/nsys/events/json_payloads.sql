-- Payloads that nsys wrote as JSON, one object per event, in the shape of the decoded blobs.
INSERT INTO nsys_payloads BY NAME
WITH
texts AS (
    SELECT n.op_id, try_cast(coalesce(n.jsonText, s.value) AS JSON) AS fields
    FROM nsys_nvtx_events AS n
    LEFT JOIN nsys_strings AS s ON n.jsonTextId = s.id
    WHERE coalesce(n.jsonText, s.value) IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM nsys_payloads AS p WHERE p.op_id = n.op_id)
),
keys AS (
    SELECT op_id, fields, unnest(json_keys(fields)) AS key FROM texts WHERE json_type(fields) = 'OBJECT'
)
SELECT
    op_id,
    key AS entry,
    -- some versions group the digits of the communicator id
    CASE
        WHEN key = 'NCCL communicator ID' THEN replace(value, ',', '')
        ELSE value
    END AS value
FROM (SELECT op_id, key, json_extract_string(fields, '/' || replace(replace(key, '~', '~0'), '/', '~1')) AS value FROM keys);
