-- What analyses said of ranks that were asked about (analysed.py), times from the beginning of the run.
CREATE TABLE memory.explorer.gaps (rank INTEGER, start_ns BIGINT, duration_ns BIGINT, cause VARCHAR, host_op VARCHAR);
CREATE TABLE memory.explorer.path (rank INTEGER, start_ns BIGINT, duration_ns BIGINT, kind VARCHAR, what VARCHAR);
