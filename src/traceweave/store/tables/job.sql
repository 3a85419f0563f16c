-- what torch's flight recorder, a record of the job itself, knows of the last operations of one rank
CREATE TABLE base.flight_calls (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    record_id BIGINT NOT NULL,
    group_name VARCHAR NOT NULL,
    group_desc VARCHAR,
    group_ranks INTEGER[],
    seq BIGINT,
    p2p_seq BIGINT,
    is_p2p BOOLEAN NOT NULL,
    op VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    -- the other side of a send or recv, as its place in the group
    peer_place BIGINT,
    input_sizes BIGINT[][],
    input_dtypes VARCHAR[],
    output_sizes BIGINT[][],
    output_dtypes VARCHAR[],
    state VARCHAR,
    retired BOOLEAN,
    created_local_ns BIGINT,
    started_local_ns BIGINT,
    completed_local_ns BIGINT,
    duration_ns BIGINT,
    timeout_ns BIGINT,
    call_id BIGINT
);

CREATE TABLE base.flight_groups (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    group_name VARCHAR NOT NULL,
    group_desc VARCHAR,
    group_ranks INTEGER[],
    last_enqueued BIGINT,
    last_started BIGINT,
    last_completed BIGINT
);

-- What NCCL itself recorded: its logs and its Inspector. A communicator is told by its number in the file, in one process; `identity`
-- is the same in all its processes, where they tell. `rank` is the global rank of the process, NULL until (and unless) join_nccl finds it.
-- One row per file, process and communicator:
CREATE TABLE base.nccl_communicators (
    source_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    host VARCHAR,
    pid BIGINT NOT NULL,
    rank INTEGER,
    identity VARCHAR,
    name VARCHAR,
    -- the rank of the process in the communicator, and how many there are
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    device INTEGER,
    nodes INTEGER,
    local_ranks INTEGER,
    channels INTEGER,
    nvls_channels INTEGER,
    p2p_channels INTEGER,
    -- of the rings that NCCL found: what all of them carry, and the kinds of path in a node and to the network
    ring_gbps DOUBLE,
    paths VARCHAR,
    network VARCHAR,
    devices VARCHAR
);

-- COLL lines, counted: one row per process, communicator (NULL: its beginning is not in the log), operation, size and type
CREATE TABLE base.nccl_calls (
    source_id INTEGER NOT NULL,
    host VARCHAR,
    pid BIGINT NOT NULL,
    number INTEGER,
    op VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    "count" BIGINT NOT NULL,
    dtype VARCHAR NOT NULL,
    bytes BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    line BIGINT NOT NULL
);

-- TUNING lines, counted: one row per process, communicators that the line may be of, operation, size and choice
CREATE TABLE base.nccl_choices (
    source_id INTEGER NOT NULL,
    host VARCHAR,
    pid BIGINT NOT NULL,
    numbers INTEGER[] NOT NULL,
    op VARCHAR,
    name VARCHAR,
    bytes BIGINT NOT NULL,
    per_rank BOOLEAN NOT NULL,
    algorithm VARCHAR NOT NULL,
    protocol VARCHAR,
    channels INTEGER,
    chosen BIGINT NOT NULL,
    line BIGINT NOT NULL
);

-- one operation of one process as NCCL Inspector measured it
CREATE TABLE base.nccl_inspected (
    source_id INTEGER NOT NULL,
    record BIGINT NOT NULL,
    number INTEGER NOT NULL,
    op VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    is_p2p BOOLEAN NOT NULL,
    -- counts the operations of one kind in a communicator
    nth BIGINT,
    peer_place INTEGER,
    bytes BIGINT,
    duration_ns BIGINT NOT NULL,
    timing VARCHAR,
    algbw_gbps DOUBLE,
    busbw_gbps DOUBLE,
    algorithm VARCHAR,
    protocol VARCHAR,
    start_local_ns BIGINT,
    end_local_ns BIGINT,
    call_id BIGINT
);

-- what traceweave.capture wrote into the trace of `rank`: it asked `peer_rank` for the time
CREATE TABLE base.clock_probes (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    peer_rank INTEGER NOT NULL,
    meeting INTEGER NOT NULL,
    asked_local_ns BIGINT NOT NULL,
    -- by the clock of the peer
    heard_local_ns BIGINT NOT NULL,
    answered_local_ns BIGINT NOT NULL,
    received_local_ns BIGINT NOT NULL
);

-- the process groups of a rank in the order they were made, as its trace lists them for calls that name none
CREATE TABLE base.listed_groups (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    place INTEGER NOT NULL,
    group_name VARCHAR NOT NULL,
    group_desc VARCHAR,
    group_ranks INTEGER[],                             -- ascending; NULL: all ranks
    world_size INTEGER NOT NULL
);

-- when a rank that lists its groups may have made others: its threads that issue collectives recorded nothing
CREATE TABLE base.pauses (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL
);

-- messages of gloo: what their calls say, and the file they are in. A call of either side waits for the other.
CREATE TABLE base.messages (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    host_op_id BIGINT NOT NULL,                        -- the call that issued it
    peer_place INTEGER,                                -- the other side by its place in the group, which no call names
    tag BIGINT,
    issued_local_ns BIGINT NOT NULL,
    waited_local_ns BIGINT,                            -- when it was over for who issued it; NULL: not while it was recorded
    recorded_from_ns BIGINT NOT NULL,
    recorded_to_ns BIGINT NOT NULL
);

-- what the job said its process groups are for, as traceweave.capture was told
CREATE TABLE base.group_roles (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    group_name VARCHAR NOT NULL,
    group_ranks INTEGER[] NOT NULL,
    role VARCHAR NOT NULL
);

CREATE TABLE base.job_settings (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    value VARCHAR NOT NULL
);
