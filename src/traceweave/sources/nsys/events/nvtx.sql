-- NVTX: ranges become host ops; marks and the rows that name domains, categories and threads become other events.
-- The latter name what they do whenever they were written.

CREATE OR REPLACE TEMP TABLE nsys_nvtx_domains AS
SELECT nsys_process(n.globalTid) AS process, n.domainId AS domain_id, any_value(coalesce(n.text, s.value)) AS name
FROM nsys_judged_nvtx_events AS n
LEFT JOIN nsys_strings AS s ON n.textId = s.id
WHERE n.eventType = 75
GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE nsys_nvtx_categories AS
SELECT nsys_process(n.globalTid) AS process, n.domainId AS domain_id, n.category, any_value(coalesce(n.text, s.value)) AS name
FROM nsys_judged_nvtx_events AS n
LEFT JOIN nsys_strings AS s ON n.textId = s.id
WHERE n.eventType = 33
GROUP BY ALL;

-- What payloads say, as one JSON object per event.
CREATE OR REPLACE TEMP TABLE nsys_payload_objects AS
SELECT op_id, json_group_object(entry, value) AS payload FROM nsys_payloads GROUP BY op_id;

CREATE OR REPLACE TEMP VIEW nsys_nvtx_named AS
SELECT
    n.*,
    coalesce(n.text, t.value) AS full_text,
    nsys_args(concat_ws(',',
        nsys_member('domain', d.name),
        nsys_number('domain id', CASE WHEN d.name IS NULL THEN nullif(n.domainId, 0) END),
        nsys_member('category', coalesce(c.name, nullif(n.category, 0)::VARCHAR)),
        nsys_member('color', CASE WHEN n.color IS NOT NULL THEN format('#{:08x}', n.color & 4294967295) END),
        nsys_member('value', CASE
            WHEN n.uint64Value < 0 THEN n.uint64Value::HUGEINT + 18446744073709551616
            ELSE coalesce(n.uint64Value, n.int64Value, n.uint32Value, n.int32Value)
        END),
        nsys_member('value', CASE
            WHEN isfinite(coalesce(n.doubleValue, n.floatValue)) THEN coalesce(n.doubleValue, n.floatValue)
        END),
        nsys_member('payload', o.payload),
        nsys_number('end tid', CASE
            WHEN n.endGlobalTid <> n.globalTid THEN nsys_tid(n.endGlobalTid)
        END),
        nsys_number('range id', CASE WHEN n.eventType IN (60, 71) THEN n.rangeId END),
        nsys_member('open', CASE WHEN n.eventType IN (59, 60, 70, 71) AND n."end" IS NULL THEN TRUE END),
        nsys_number('op_id', try_cast(nullif(regexp_extract(full_text, ', op_id = (\d+)', 1), '') AS BIGINT)),
        -- few have these, and looking for plain text costs a tenth
        nsys_member('sizes', CASE WHEN contains(full_text, ', sizes = [') THEN
            nullif(regexp_extract(full_text, ', sizes = (\[.*?\])(, input_op_ids|$)', 1), '')
        END),
        nsys_member('input_op_ids', CASE WHEN contains(full_text, ', input_op_ids = [') THEN
            nullif(regexp_extract(full_text, ', input_op_ids = (\[.*\])$', 1), '')
        END)
    )) AS args
FROM nsys_nvtx_events AS n
LEFT JOIN nsys_strings AS t ON n.textId = t.id
LEFT JOIN nsys_nvtx_domains AS d ON n.process = d.process AND n.domainId = d.domain_id
LEFT JOIN nsys_nvtx_categories AS c
    ON n.process = c.process AND n.domainId = c.domain_id AND n.category = c.category
LEFT JOIN nsys_payload_objects AS o ON n.op_id = o.op_id;

-- emit_nvtx writes `name, seq = N, op_id = M, sizes = [[..]]`: the name alone groups, the rest is data.
INSERT INTO new_host_ops BY NAME
SELECT
    rank,
    op_id,
    'nvtx' AS kind,
    coalesce(regexp_replace(full_text, '(?s), (seq|op_id|sizes|input_op_ids) = .*$', ''), 'unnamed range') AS name,
    pid,
    tid,
    start_local_ns,
    duration_ns,
    CASE WHEN eventType IN (59, 70) THEN coalesce(domainId, 0) END AS nesting,
    try_cast(nullif(regexp_extract(full_text, ', seq = (\d+)', 1), '') AS BIGINT) AS sequence,
    args
FROM nsys_nvtx_named
WHERE eventType IN (59, 60, 70, 71);

INSERT INTO base.other_events BY NAME
SELECT
    rank,
    op_id,
    source_id,
    CASE WHEN eventType = 34 THEN 'i' ELSE 'M' END AS phase,
    CASE eventType
        WHEN 34 THEN 'nvtx_mark'
        WHEN 33 THEN 'nvtx_category'
        WHEN 39 THEN 'nvtx_thread_name'
        WHEN 75 THEN 'nvtx_domain_create'
        WHEN 76 THEN 'nvtx_domain_destroy'
        ELSE coalesce('nvtx_event_type_' || eventType, 'nvtx')
    END AS category,
    full_text AS name,
    pid::VARCHAR AS pid,
    tid::VARCHAR AS tid,
    start_local_ns,
    args
FROM nsys_nvtx_named
WHERE coalesce(eventType, 0) NOT IN (59, 60, 70, 71);

-- The ranges of NCCL and torch around collectives (collectives.sql), the last that is asked of these rows. Without the row
-- that names the domain (cut exports) the names tell.
CREATE OR REPLACE TEMP TABLE nsys_comm_ranges AS
SELECT n.op_id, n.globalTid AS thread, n.start, n."end", n.start + n.duration_ns AS until, coalesce(d.name = 'NCCL', FALSE) AS in_domain
FROM nsys_nvtx_events AS n
LEFT JOIN nsys_strings AS t ON n.textId = t.id
LEFT JOIN nsys_nvtx_domains AS d ON n.process = d.process AND n.domainId = d.domain_id
WHERE n.eventType IN (59, 60, 70, 71) AND (d.name = 'NCCL' OR starts_with(coalesce(n.text, t.value), 'nccl'));
