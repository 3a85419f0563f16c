-- shared: budget | the time budget of every step, or of whole recordings where no step is marked
-- grain: one row per rank and step; per rank where has_steps is false
-- within: rank
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole recording
-- column: timeline VARCHAR | 'gpu' or 'cpu'
-- column: window_ns BIGINT | this and the following as in breakdown
-- column: compute_ns BIGINT | time in which compute ran
-- column: comm_ns BIGINT | time in which communication ran
-- column: overlap_ns BIGINT | time in which both ran
-- column: exposed_comm_ns BIGINT | time in which communication ran and compute did not
-- column: exposed_wait_ns BIGINT | of that, time in which ranks waited for each other
-- column: exposed_transfer_ns BIGINT | time in which a transfer ran
-- column: exposed_unsplit_ns BIGINT | the rest, which cannot be told
-- column: exposed_memory_ns BIGINT | time in which only copies or memsets ran
-- column: idle_ns BIGINT | time in which nothing ran
-- column: has_steps BOOLEAN | whether the run has steps
-- column: windows BIGINT | rows of this rank
SELECT
    rank,
    step,
    timeline,
    window_ns,
    compute_ns,
    comm_ns,
    overlap_ns,
    exposed_comm_ns,
    exposed_wait_ns,
    exposed_transfer_ns,
    exposed_unsplit_ns,
    exposed_memory_ns,
    idle_ns,
    has_steps,
    count(*) OVER (PARTITION BY rank) AS windows
FROM (SELECT *, bool_or(step IS NOT NULL) OVER () AS has_steps FROM {{ ref('breakdown') }} WHERE window_ns > 0)
WHERE step IS NOT NULL OR NOT has_steps
