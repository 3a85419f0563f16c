-- shared: exposure | exposed communication of the mean step, by what it is
-- grain: one row; none without collectives
-- column: wait_ns DOUBLE | waiting for other ranks, stages of a pipeline apart; this and the following per step, mean over the ranks
-- column: staged_ns DOUBLE | waiting of pipeline stages for each other
-- column: one_sided_ns DOUBLE | sends and receives whose other side is not known
-- column: transfer_ns DOUBLE | exposed for another reason than waiting
-- column: hideable_ns DOUBLE | of transfer_ns, what may run beside the compute there is
-- column: doubtful_ns DOUBLE | of transfer_ns, in operations that lack ranks
-- column: doubtful_hideable_ns DOUBLE | of that, what may run beside compute
-- column: hidden_share DOUBLE | of the transfers that may run beside compute, the share that does
-- column: split BIGINT | collectives whose waiting is told from transfer
-- column: calls BIGINT | all of them
-- column: hideable_use VARCHAR | the use with most of hideable_ns
-- column: transfer_use VARCHAR | the use with most of transfer_ns
WITH
-- Sums count collectives that overlap twice, so shares of them divide the union that breakdown has.
uses AS (
    SELECT arg_max(use, (hideable_ns, use)) AS of_hideable, arg_max(use, (transfer_ns, use)) AS of_transfer
    FROM (
        SELECT use, coalesce(sum(bare_ns) FILTER (WHERE NOT is_staged AND NOT is_blocking), 0) AS hideable_ns, sum(bare_ns) AS transfer_ns
        FROM shared_exposed_calls()
        GROUP BY use
    )
)
SELECT
    s.exposed_comm_ns * coalesce(sum(c.exposed_wait_ns) FILTER (WHERE NOT c.is_staged), 0) / greatest(sum(c.exposed_ns), 1) AS wait_ns,
    s.exposed_comm_ns * coalesce(sum(c.exposed_wait_ns) FILTER (WHERE c.is_staged), 0) / greatest(sum(c.exposed_ns), 1) AS staged_ns,
    s.exposed_comm_ns * coalesce(sum(c.exposed_ns) FILTER (WHERE c.is_p2p AND c.wait_ns IS NULL), 0) / greatest(sum(c.exposed_ns), 1) AS one_sided_ns,
    s.exposed_comm_ns * coalesce(sum(c.bare_ns), 0) / greatest(sum(c.exposed_ns), 1) AS transfer_ns,
    least(
        s.exposed_comm_ns * coalesce(sum(c.bare_ns) FILTER (WHERE NOT c.is_staged AND NOT c.is_blocking), 0) / greatest(sum(c.exposed_ns), 1),
        s.compute_ns - s.overlap_ns
    ) AS hideable_ns,
    s.exposed_comm_ns * coalesce(sum(c.bare_ns) FILTER (WHERE c.lacks_ranks), 0) / greatest(sum(c.exposed_ns), 1) AS doubtful_ns,
    s.exposed_comm_ns * coalesce(sum(c.bare_ns) FILTER (WHERE c.lacks_ranks AND NOT c.is_staged AND NOT c.is_blocking), 0)
        / greatest(sum(c.exposed_ns), 1) AS doubtful_hideable_ns,
    1 - sum(c.bare_ns) FILTER (WHERE NOT c.is_staged AND NOT c.is_blocking)
        / nullif(sum(c.duration_ns - coalesce(c.wait_ns, 0)) FILTER (WHERE NOT c.is_staged AND NOT c.is_blocking), 0) AS hidden_share,
    count(c.wait_ns) AS split,
    count(*) AS calls,
    any_value(u.of_hideable) AS hideable_use,
    any_value(u.of_transfer) AS transfer_use
FROM shared_exposed_calls() AS c CROSS JOIN shared_mean_step() AS s CROSS JOIN uses AS u
GROUP BY s.exposed_comm_ns, s.compute_ns, s.overlap_ns
