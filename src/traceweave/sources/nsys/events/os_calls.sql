-- Calls into the operating system.
INSERT INTO new_host_ops BY NAME
SELECT
    o.rank,
    o.op_id,
    'os' AS kind,
    coalesce(n.value, 'unnamed OS call') AS name,
    o.pid,
    o.tid,
    o.start_local_ns,
    o.duration_ns,
    -2 AS nesting,
    nsys_args(concat_ws(',', nsys_number('return value', o.returnValue), nsys_number('nesting level', o.nestingLevel))) AS args
FROM nsys_osrt_api AS o LEFT JOIN nsys_strings AS n ON o.nameId = n.id;
