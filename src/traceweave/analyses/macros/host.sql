-- What a name on the host says about what the thread was doing. The words are in the vocabulary; each name is asked once: a
-- condition on the calls or ranges themselves would be tried on every one of them. And each name is asked once for all
-- analyses that ask: these are tables, made when one needs them.

-- table: tw_call_names | one row per name of a call or operator: name, waits_for (what a call that makes its thread wait for the device waits for: 'device', 'stream', 'event', 'copy' or 'operator'), launches ('kernel', 'graph', 'copy' or 'memset'), allocates ('allocate' or 'free'), loads ('module': device code); NULL: does not
-- reads: host_ops
CREATE OR REPLACE TEMP TABLE tw_call_names AS
SELECT
    name,
    nullif(vocabulary('synchronizing', name), 'no') AS waits_for,
    vocabulary('launching', name) AS launches,
    vocabulary('allocating', name) AS allocates,
    vocabulary('loading_code', name) AS loads
FROM (
    SELECT any_value(name) AS name FROM host_ops WHERE kind IN ('runtime', 'driver', 'op') GROUP BY host_ops.name
);

-- macro: tw_overhead(name) | what an event of the category overhead (other_events) was: 'module' (device code was loaded), 'queue' (the launch queue was full), 'profiler'; NULL if unknown
CREATE TEMP MACRO IF NOT EXISTS tw_overhead(name) AS
    vocabulary('overhead', name);

-- table: tw_range_names | one row per name of a host range: name, gets_data ('yes': the training loop gets its next batch, marked by the loader, in a loader's file, or called so; 'no': only looks like it), compiles ('yes': code is compiled); NULL: does not
-- reads: host_ops
CREATE OR REPLACE TEMP TABLE tw_range_names AS
SELECT
    name,
    vocabulary('data_loading', name) AS gets_data,
    vocabulary('compiling', name) AS compiles
FROM (
    SELECT any_value(name) AS name FROM host_ops WHERE kind NOT IN ('runtime', 'driver') GROUP BY host_ops.name
);

-- table: tw_holds | what can keep a host thread from launching: rank, pid and tid (-1: no number), depth, sort ('sync': a call that waits for the device, 'allocator', 'module_loading', 'compilation', 'data_loading'), name, start_ns, end_ns, on the rank's own clock
-- reads: host_ops
CREATE OR REPLACE TEMP TABLE tw_holds AS
SELECT
    h.rank,
    coalesce(h.pid, -1) AS pid,
    coalesce(h.tid, -1) AS tid,
    coalesce(h.depth, 0) AS depth,
    n.sort,
    h.name,
    h.start_local_ns AS start_ns,
    h.start_local_ns + h.duration_ns AS end_ns
FROM host_ops AS h
JOIN (
    SELECT name, 'sync' AS sort, ['call', 'op'] AS among FROM tw_call_names WHERE waits_for IS NOT NULL
    UNION ALL
    SELECT name, CASE WHEN allocates IS NOT NULL THEN 'allocator' ELSE 'module_loading' END, ['call']
    FROM tw_call_names
    WHERE allocates IS NOT NULL OR loads IS NOT NULL
    UNION ALL
    SELECT name, 'compilation', ['op', 'range'] FROM tw_range_names WHERE compiles = 'yes'
    UNION ALL
    SELECT name, 'data_loading', ['op', 'range'] FROM tw_range_names WHERE gets_data = 'yes'
) AS n
    ON n.name = h.name
    AND list_contains(n.among, CASE h.kind WHEN 'runtime' THEN 'call' WHEN 'driver' THEN 'call' WHEN 'op' THEN 'op' ELSE 'range' END);
