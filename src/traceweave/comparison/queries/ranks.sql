-- What every rank did in every step, part by part; `rows` holds the rows of the analysis breakdown. step is NULL for ranks whose
-- traces mark no steps: their whole recording.
SELECT rank, step, part, time_ns
FROM rows
UNPIVOT (time_ns FOR part IN (
    compute_ns, exposed_comm_ns, exposed_wait_ns, exposed_transfer_ns, exposed_unsplit_ns, exposed_memory_ns
))
