-- Staging of Kineto files: the events as reader.py reads them, and what they are of.

CREATE OR REPLACE TEMP TABLE new_events (
    source_id INTEGER, ph VARCHAR, cat VARCHAR, name VARCHAR, pid VARCHAR, tid VARCHAR, id VARCHAR,
    args JSON, since_base_ns BIGINT, duration_ns BIGINT, lane VARCHAR,
    part INTEGER DEFAULT 0                             -- counts the processes of a file into which several were merged
);

-- One row about each process of each file: what to add to times and to row numbers of new_events.
CREATE OR REPLACE TEMP TABLE new_source (
    source_id INTEGER, part INTEGER, rank INTEGER, world_size INTEGER, base_ns BIGINT, first_op_id BIGINT, is_merged BOOLEAN
);

-- The process groups that files list.
CREATE OR REPLACE TEMP TABLE new_groups (source_id INTEGER, name VARCHAR, description VARCHAR, ranks INTEGER[], size INTEGER);

-- What the categories of events stand for: on the host, on the device. Torch changed their names over the years.

CREATE OR REPLACE TEMP TABLE host_categories AS
SELECT t.* FROM (VALUES
    ('cpu_op', 'op'), ('operator', 'op'), ('cpuop', 'op'), ('user_annotation', 'annotation'), ('user_scope', 'annotation'),
    ('python_function', 'python'),
    ('cuda_runtime', 'runtime'), ('runtime', 'runtime'), ('hip_runtime', 'runtime'), ('mtia_runtime', 'runtime'),
    ('xpu_runtime', 'runtime'), ('privateuse1_runtime', 'runtime'), ('glow_runtime', 'runtime'),
    ('cuda_driver', 'driver'), ('hip_driver', 'driver'), ('privateuse1_driver', 'driver'), ('xpu_driver', 'driver')
) AS t(cat, kind);

-- What runs on the device. An accelerator that is no GPU writes all that its command processor does as one category:
-- kernels under their names, copies, and waiting for events.
CREATE OR REPLACE TEMP TABLE device_categories AS
SELECT t.* FROM (VALUES
    ('kernel', 'kernel'), ('mtia_ccp_events', 'kernel'), ('gpu_memcpy', 'memcpy'), ('memcpy', 'memcpy'), ('gpu_memset', 'memset'), ('memset', 'memset')
) AS t(cat, kind);
