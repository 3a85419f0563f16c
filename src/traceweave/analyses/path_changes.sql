-- analysis: path_changes | where the critical path changes rank: a collective whose last member came from there
-- answers: Through which ranks does the critical path go, and where does it change?
-- topic: time
-- grain: one row per change of rank on the critical path
-- column: step BIGINT | step number; NULL outside any step
-- column: at_ns BIGINT | when, common clock
-- column: from_rank INTEGER | the rank that arrived last
-- column: to_rank INTEGER | the rank that waited for it, on which the path goes on
-- column: op VARCHAR | the collective
-- column: group_id INTEGER | its process group
-- column: collective_id BIGINT | the instance
-- order: at_ns, to_rank
-- caveat: of members that end together the path goes on with the one that the end of the run waited for.
SELECT step, at_ns, from_rank, to_rank, op, group_id, collective_id
FROM tw_path_changes
ORDER BY at_ns, to_rank
