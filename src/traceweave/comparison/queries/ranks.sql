-- What every rank did in every step; `rows` holds the rows of the analysis breakdown. step is NULL for ranks whose traces mark
-- no steps: their whole recording.
SELECT rank, step, compute_ns, exposed_comm_ns, exposed_wait_ns, exposed_transfer_ns, exposed_unsplit_ns, exposed_memory_ns
FROM rows
