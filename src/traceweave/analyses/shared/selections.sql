-- shared: selections | when the operations of two selections ran, on the clocks of their ranks
-- through: selected_ops
-- grain: one row per operation and selection that means it
-- param: a
-- param: b
-- column: rank INTEGER | global rank
-- column: side VARCHAR | 'a' or 'b'
-- column: start_ns BIGINT | start
-- column: end_ns BIGINT | end
SELECT {{ param('a') }} AS a, {{ param('b') }} AS b
