-- What a name on the host says about what the thread was doing. The words are in the vocabulary; each name is asked once: a
-- condition on the calls or ranges themselves would be tried on every one of them.

-- macro: tw_calls() | one row per name of a call or operator: name, waits_for (what a call that makes its thread wait for the device waits for: 'device', 'stream', 'event', 'copy' or 'operator'), launches ('kernel', 'graph', 'copy' or 'memset'), allocates ('allocate' or 'free'), loads ('module': device code); NULL: does not
-- reads: host_ops
CREATE TEMP MACRO IF NOT EXISTS tw_calls() AS TABLE
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

-- macro: tw_ranges() | one row per name of a host range: name, gets_data ('yes': the training loop gets its next batch, marked by the loader, in a loader's file, or called so; 'no': only looks like it), compiles ('yes': code is compiled); NULL: does not
-- reads: host_ops
CREATE TEMP MACRO IF NOT EXISTS tw_ranges() AS TABLE
SELECT
    name,
    vocabulary('data_loading', name) AS gets_data,
    vocabulary('compiling', name) AS compiles
FROM (
    SELECT any_value(name) AS name FROM host_ops WHERE kind NOT IN ('runtime', 'driver') GROUP BY host_ops.name
);
