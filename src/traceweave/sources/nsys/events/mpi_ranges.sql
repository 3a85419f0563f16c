-- MPI's collectives and messages as nsys before 2023 keeps them: NVTX ranges of a domain 'MPI', which tell a call's name and
-- nothing else. They stay ranges, as `nsys stats` counts them. Calls that only start an operation have no end that is known.

INSERT INTO new_collective_calls BY NAME
SELECT rank, op_id AS host_op_id, collective_op(name) AS op, tid AS stream, start_local_ns, duration_ns, 'host op' AS evidence
FROM new_host_ops
WHERE kind = 'nvtx' AND starts_with(name, 'MPI_') AND args->>'domain' = 'MPI' AND rank IS NOT NULL
    AND collective_op(name) <> 'unknown' AND NOT regexp_matches(name, '^MPI_I[a-z]|_(init|local)$')
    -- where nsys has tables of MPI, ranges are a program's own
    AND NOT EXISTS (FROM new_host_ops WHERE kind = 'mpi');
