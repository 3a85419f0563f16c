-- Host threads of the ranks that were unfolded (threads_of_rank.sql).
CREATE TABLE memory.explorer.threads (
    rank INTEGER, thread INTEGER, pid BIGINT, tid BIGINT, label VARCHAR, depths INTEGER, ops BIGINT
);
