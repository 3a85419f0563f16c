-- Calls into the operating system.

INSERT INTO new_host_ops BY NAME
SELECT
    p.rank,
    o.op_id,
    'os' AS kind,
    coalesce(n.value, 'unnamed OS call') AS name,
    nsys_pid(o.globalTid) AS pid,
    nsys_tid(o.globalTid) AS tid,
    o.start + s.base_ns AS start_local_ns,
    o."end" - o.start AS duration_ns,
    -2 AS nesting,
    nsys_args(concat_ws(',',
        nsys_number('return value', o.returnValue), nsys_number('nesting level', o.nestingLevel)
    )) AS args
FROM nsys_osrt_api AS o
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_strings AS n ON o.nameId = n.id
LEFT JOIN nsys_processes AS p ON nsys_process(o.globalTid) = p.process
WHERE nsys_timely(o.start) AND nsys_timely(o."end") AND o."end" >= o.start;
