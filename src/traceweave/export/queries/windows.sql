-- The selected steps of every rank, from the start on the host to the end on host and GPU: for events without a step.
SELECT rank, start_ns, greatest(end_ns, coalesce(device_end_ns, end_ns)) AS end_ns
FROM steps
WHERE list_contains($steps, step)
