CREATE TABLE base.steps (
    rank INTEGER NOT NULL,
    step BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL,
    device_start_local_ns BIGINT,
    device_end_local_ns BIGINT,
    source VARCHAR NOT NULL,
    kind VARCHAR
);

CREATE TABLE base.gpu_ops (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    category VARCHAR NOT NULL,
    class VARCHAR NOT NULL,
    class_source VARCHAR,
    name VARCHAR NOT NULL,
    device INTEGER,
    context BIGINT,
    stream BIGINT,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL,
    step BIGINT,
    correlation BIGINT,
    launch_op_id BIGINT,
    bytes BIGINT,
    copy_kind VARCHAR,
    graph_node BIGINT,
    args JSON USING COMPRESSION zstd,
    -- what host_ops says of the launching call, so that nobody has to join the two; NULL if it is not recorded
    launch_start_local_ns BIGINT,
    launch_duration_ns BIGINT,
    launch_pid BIGINT,
    launch_tid BIGINT,
    launch_call VARCHAR
);

CREATE TABLE base.host_ops (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    pid BIGINT,
    tid BIGINT,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL,
    depth INTEGER,
    parent_id BIGINT,
    step BIGINT,
    correlation BIGINT,
    sequence BIGINT,
    arguments_hash BIGINT,
    args JSON USING COMPRESSION zstd
);

-- what is left of operators in which their thread waited for a collective: a row per part, of which the last may have no length; none where a GPU works
CREATE TABLE base.op_parts (
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL
);

CREATE TABLE base.flows (
    rank INTEGER,
    source_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    from_op_id BIGINT NOT NULL,
    to_op_id BIGINT NOT NULL
);

CREATE TABLE base.memory_events (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    device VARCHAR,
    name VARCHAR NOT NULL,
    at_local_ns BIGINT NOT NULL,
    value BIGINT,
    address BIGINT,
    total_allocated_bytes BIGINT,
    total_reserved_bytes BIGINT,
    args JSON USING COMPRESSION zstd
);

CREATE TABLE base.counters (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    device VARCHAR,
    name VARCHAR NOT NULL,
    at_local_ns BIGINT NOT NULL,
    value DOUBLE,
    unit VARCHAR
);

CREATE TABLE base.other_events (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    phase VARCHAR NOT NULL,
    category VARCHAR,
    name VARCHAR,
    pid VARCHAR,
    tid VARCHAR,
    start_local_ns BIGINT,
    duration_ns BIGINT,
    args JSON USING COMPRESSION zstd
);
