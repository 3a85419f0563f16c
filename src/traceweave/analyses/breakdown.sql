-- analysis: breakdown | what each rank's time was made of: compute, exposed communication, exposed memory work, idle
-- answers: How much of every step is communication that no compute hides, and how much is nothing at all?
-- topic: time
-- grain: one row per rank and step; one row per rank where step is NULL
-- page: table-budget
-- within: rank
-- param: window
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole span
-- column: window_start_ns BIGINT | start of the window, common clock
-- column: window_ns BIGINT | length of the window on the rank's own clock, as all lengths here = compute_ns + exposed_comm_ns + exposed_memory_ns + idle_ns
-- column: compute_ns BIGINT | time in which compute ran
-- column: comm_ns BIGINT | time in which communication ran
-- column: memory_ns BIGINT | time in which copies or memsets ran
-- column: overlap_ns BIGINT | time in which compute and communication both ran
-- column: exposed_comm_ns BIGINT | time in which communication ran and compute did not
-- column: exposed_memory_ns BIGINT | time in which only copies or memsets ran
-- column: idle_ns BIGINT | time in which nothing ran
-- column: comm_hidden_fraction DOUBLE | overlap_ns / comm_ns, 0 to 1; NULL without communication
-- column: overlap_efficiency DOUBLE | overlap_ns / the shorter of compute_ns and comm_ns, 0 to 1: time saved over time that could be saved; NULL if either is 0
-- column: step_overlap_efficiency DOUBLE | the same with the whole window in place of the busy time: (compute_ns + comm_ns - window_ns) / the shorter of the two, clipped to 0 to 1; NULL if either is 0
-- column: exposed_wait_ns BIGINT | of exposed_comm_ns, time in which only waiting for other ranks ran, where the traces separate it from transfer
-- column: exposed_transfer_ns BIGINT | time in which a transfer ran, and no compute
-- column: exposed_unsplit_ns BIGINT | the rest: communication whose waiting and transfer cannot be separated
-- column: timeline VARCHAR | 'gpu', or 'cpu' for a rank without GPU ops
-- column: note VARCHAR | why a value is NULL or the window is another one; NULL if there is nothing to say
-- main: rank, step, window_ns, compute_ns, exposed_comm_ns, exposed_wait_ns, exposed_transfer_ns, exposed_memory_ns, idle_ns, comm_hidden_fraction, note
-- order: rank, step NULLS FIRST, window_start_ns, window_ns
-- caveat: all devices and streams of a rank count as one timeline: something runs if it runs on any of them.
-- caveat: a step in which no GPU op was launched has no device window, hence no row; window = 'host' has one.
-- caveat: a rank without any op has no row.
-- caveat: waiting ends when the last rank arrives (exposed_comm says how); this needs a second rank, and transfer all ranks of the group: where one is not seen, the rest may be waiting for it.
-- caveat: lengths are those of the rank's own clock: if the clock stepped during the recording (several rows in clocks), the window or gap around that moment includes the step.
-- caveat: a step's device window ends with the first GPU op of the next one: a delay of that op, such as loading its batch, counts in the previous step. Analyses of host ranges, such as data_loading, count it in the step itself.
SELECT
    m.rank,
    step,
    aligned_ns(start_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS window_start_ns,
    window_ns,
    compute_ns,
    comm_ns,
    memory_ns,
    compute_ns + comm_ns - busy_ns AS overlap_ns,
    busy_ns - compute_ns AS exposed_comm_ns,
    any_ns - busy_ns AS exposed_memory_ns,
    window_ns - any_ns AS idle_ns,
    tw_ratio(compute_ns + comm_ns - busy_ns, comm_ns) AS comm_hidden_fraction,
    tw_ratio(compute_ns + comm_ns - busy_ns, least(compute_ns, comm_ns)) AS overlap_efficiency,
    CASE WHEN least(compute_ns, comm_ns) > 0 THEN
        greatest(0, least(1, tw_ratio(compute_ns + comm_ns - window_ns, least(compute_ns, comm_ns))))
    END AS step_overlap_efficiency,
    compute_parts_ns - compute_transfer_ns AS exposed_wait_ns,
    compute_transfer_ns - compute_ns AS exposed_transfer_ns,
    busy_ns - compute_parts_ns AS exposed_unsplit_ns,
    timeline,
    nullif(concat_ws('; ',
        note,
        CASE WHEN comm_ns = 0 THEN 'no communication: fractions are NULL' END,
        CASE WHEN comm_ns > 0 AND compute_ns = 0 THEN 'no compute: efficiencies are NULL' END
    ), '') AS note
FROM tw_window_times({{ param('window') }}) AS m
LEFT JOIN clock_spans AS c ON c.rank = m.rank AND m.start_ns >= c.from_local_ns AND m.start_ns < c.until_local_ns
ORDER BY m.rank, step NULLS FIRST, window_start_ns, window_ns
