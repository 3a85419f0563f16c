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

-- what one rank knows of one of its collective or point-to-point operations
CREATE TABLE base.collective_calls (
    call_id BIGINT NOT NULL,
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    gpu_op_id BIGINT,
    -- of an operation that is two kernels, with its data under way in between: the second
    receive_op_id BIGINT,
    host_op_id BIGINT,
    op VARCHAR NOT NULL,
    -- of an all_to_all that is one of two kinds, 'dispatch' or 'combine': to match calls, all that counts is what they exchange
    kind VARCHAR,
    group_name VARCHAR,
    group_desc VARCHAR,
    group_ranks INTEGER[],
    group_size INTEGER,
    comm_id VARCHAR,
    -- numbers inside the communicator, where nothing else is known: of this rank, and of a send's or recv's peer
    comm_rank INTEGER,
    comm_peer INTEGER,
    seq BIGINT,
    dtype VARCHAR,
    bytes BIGINT,
    peer INTEGER,
    stream BIGINT,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL,
    step BIGINT,
    evidence VARCHAR NOT NULL
);

-- written by weave, one row per call
CREATE TABLE base.matches (
    call_id BIGINT NOT NULL,
    group_id INTEGER,
    collective_id BIGINT,
    match VARCHAR NOT NULL
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
