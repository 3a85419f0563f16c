-- What the explorer draws on: one row per stream of every rank (in a run without a GPU per host thread), with the rank's clock,
-- so that one join aligns its operations. `lane` numbers them in the order in which they are shown.
CREATE TABLE memory.explorer.lanes AS
WITH streams AS (
    SELECT
        rank,
        device,
        stream,
        count(*) AS ops,
        CAST(sum(duration_ns) AS BIGINT) AS busy_ns,
        min(start_local_ns) AS first_local_ns,
        max(start_local_ns + duration_ns) AS last_local_ns,
        sum(duration_ns) FILTER (category = 'compute') AS compute_ns,
        sum(duration_ns) FILTER (category = 'communication') AS communication_ns
    FROM memory.explorer.recorded
    GROUP BY rank, device, stream
)
SELECT
    CAST(row_number() OVER (ORDER BY s.rank, s.device, coalesce(compute_ns, 0) < coalesce(communication_ns, 0), busy_ns DESC, s.stream) - 1
        AS SMALLINT) AS lane,
    s.rank,
    s.device,
    s.stream,
    CASE
        WHEN coalesce(compute_ns, 0) >= busy_ns / 2 THEN 'compute'
        WHEN coalesce(communication_ns, 0) >= busy_ns / 2 THEN 'communication'
        ELSE 'copies'
    END AS label,
    s.ops,
    s.busy_ns,
    s.first_local_ns,
    s.last_local_ns,
    c.* EXCLUDE (rank)
FROM streams AS s JOIN memory.explorer.clocks AS c USING (rank)
ORDER BY lane;
