-- shared: split_calls | how much of each collective whose waiting is known is waiting, as pages draw it
-- grain: one row per rank and such collective
-- column: call_id BIGINT | as in collectives
-- column: wait_ns BIGINT | from its start to that of the last rank, as tw_split_calls has it
-- column: is_whole BOOLEAN | whether the rest of it is transfer; else it may be waiting too
SELECT call_id, wait_ns, is_whole FROM tw_split_calls()
