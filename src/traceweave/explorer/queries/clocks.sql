-- The clock of each rank, in one row.
CREATE TABLE memory.explorer.clocks AS FROM base.rank_clocks;
