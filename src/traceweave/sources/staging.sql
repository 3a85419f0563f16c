-- Staging: what a loader says about its files, in the words of the base tables but before linking. Temporary, so
-- private to the loader's connection. derive.py turns them into rows of the base tables.

CREATE OR REPLACE TEMP TABLE new_gpu_ops (
    rank INTEGER, op_id BIGINT, kind VARCHAR,          -- 'kernel', 'memcpy', 'memset'
    name VARCHAR, device INTEGER, context BIGINT, stream BIGINT,
    start_local_ns BIGINT, duration_ns BIGINT,
    correlation BIGINT,
    launch_op_id BIGINT,                               -- NULL: derive links by (rank, correlation)
    bytes BIGINT, copy_kind VARCHAR, graph_node BIGINT, args JSON
);

CREATE OR REPLACE TEMP TABLE new_host_ops (
    rank INTEGER, op_id BIGINT,
    kind VARCHAR,                                      -- 'op', 'annotation', 'python', 'runtime', 'driver', 'nvtx', 'os', 'mpi'
    name VARCHAR, pid BIGINT, tid BIGINT,
    start_local_ns BIGINT, duration_ns BIGINT,
    nesting BIGINT,                                    -- on one thread, ranges of one nesting close in the reverse order they opened
                                                       -- (NVTX: those of a domain); NULL: nests in nothing (NVTX start/end ranges)
    correlation BIGINT, sequence BIGINT,
    arguments_hash BIGINT,                             -- equal for calls of one operator whose arguments are equal
    args JSON
);

CREATE OR REPLACE TEMP TABLE new_collective_calls (
    rank INTEGER, gpu_op_id BIGINT, host_op_id BIGINT,
    receive_op_id BIGINT,                              -- written by halves.sql
    op VARCHAR,                                        -- as macro collective_op has it
    group_name VARCHAR, group_desc VARCHAR, group_ranks INTEGER[], group_size INTEGER,
    comm_id VARCHAR,                                   -- communicator hash, hex, where the trace has one
    comm_rank INTEGER, comm_peer INTEGER,              -- this rank's and the peer's number inside that communicator
    seq BIGINT, dtype VARCHAR,
    bytes BIGINT,                                      -- S of nccl-tests: the whole buffer
    peer INTEGER,
    root_place INTEGER,                                -- root of a broadcast, reduce, gather or scatter, as its number in the group
    stream BIGINT, start_local_ns BIGINT, duration_ns BIGINT,
    evidence VARCHAR                                   -- 'metadata', 'capture', 'nvtx', 'host op', 'name'
);

-- The processes that are ranks, as model.Process has them. Written by derive.py.
CREATE OR REPLACE TEMP TABLE new_ranks (
    source_id INTEGER, rank INTEGER, rank_source VARCHAR, recording INTEGER, world_size INTEGER, host VARCHAR, pid BIGINT, device INTEGER,
    gpu_name VARCHAR, gpu_names STRUCT(device INTEGER, name VARCHAR)[], backend VARCHAR, nccl_version VARCHAR, base_ns BIGINT
);
