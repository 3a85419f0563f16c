-- shared: exposure | exposed communication of the mean step, by what it is
-- grain: one row; none without collectives
-- param: small_bytes
-- column: wait_ns DOUBLE | waiting for other ranks, stages of a pipeline and the beginning of the recording apart; this and the following per step, mean over the ranks
-- column: start_ns DOUBLE | waiting in the first collective of each group: how unevenly the recording began
-- column: staged_ns DOUBLE | waiting of pipeline stages for each other
-- column: one_sided_ns DOUBLE | sends and receives whose other side is not known
-- column: transfer_ns DOUBLE | exposed for another reason than waiting
-- column: read_ns DOUBLE | of transfer_ns, what the host reads at once in every step
-- column: hideable_ns DOUBLE | of transfer_ns, what may run beside the compute there is
-- column: doubtful_ns DOUBLE | of transfer_ns, in operations that lack ranks, or do not make ranks wait for all others
-- column: doubtful_hideable_ns DOUBLE | of that, what may run beside compute
-- column: unseen VARCHAR | the ranks that most of doubtful_ns may be waiting for, in words
-- column: hidden_share DOUBLE | of the transfers that may run beside compute, the share that does
-- column: split BIGINT | collectives whose waiting is told from transfer
-- column: calls BIGINT | all of them
-- column: instances BIGINT | matched instances they are of
-- column: small_share DOUBLE | of transfer_ns, the share in calls of less than small_bytes
-- column: hideable_use VARCHAR | the use with most of hideable_ns
-- column: transfer_uses VARCHAR[] | the use with most of transfer_ns, and where that is known, others with a third of it or more
WITH by_use AS (
    SELECT use, coalesce(sum(bare_ns) FILTER (WHERE NOT is_staged AND NOT is_blocking), 0) AS hideable_ns, sum(bare_ns) AS transfer_ns
    FROM {{ ref('exposed_calls') }}
    GROUP BY use
),
most AS (
    SELECT arg_max(use, (hideable_ns, use)) AS of_hideable, arg_max(use, (transfer_ns, use)) AS of_transfer, sum(transfer_ns) AS all_ns FROM by_use
),
uses AS (
    SELECT m.of_hideable, list(u.use ORDER BY u.transfer_ns DESC, u.use DESC) AS of_transfer
    FROM most AS m JOIN by_use AS u ON u.use = m.of_transfer OR 3 * u.transfer_ns >= m.all_ns AND 'unknown' NOT IN (u.use, m.of_transfer)
    GROUP BY m.of_hideable
),
summed AS (
    SELECT
        count(*) AS calls,
        count(wait_ns) AS split,
        count(DISTINCT collective_id) AS instances,
        sum(exposed_ns) AS exposed_ns,
        coalesce(sum(exposed_wait_ns), 0) AS exposed_wait_ns,
        coalesce(sum(exposed_wait_ns) FILTER (WHERE NOT is_staged AND NOT is_start), 0) AS wait_ns,
        coalesce(sum(exposed_wait_ns) FILTER (WHERE NOT is_staged AND is_start), 0) AS start_ns,
        coalesce(sum(exposed_wait_ns) FILTER (WHERE is_staged), 0) AS staged_ns,
        coalesce(sum(exposed_ns) FILTER (WHERE is_p2p AND is_staged AND wait_ns IS NULL), 0) AS one_sided_ns,
        coalesce(sum(bare_ns), 0) AS bare_ns,
        coalesce(sum(bare_ns) FILTER (WHERE NOT is_staged AND NOT is_blocking), 0) AS hideable_ns,
        coalesce(sum(bare_ns) FILTER (WHERE is_read), 0) AS read_ns,
        coalesce(sum(bare_ns) FILTER (WHERE lacks_ranks OR is_unsplit), 0) AS doubtful_ns,
        coalesce(sum(bare_ns) FILTER (WHERE (lacks_ranks OR is_unsplit) AND NOT is_staged AND NOT is_blocking), 0) AS doubtful_hideable_ns,
        CASE
            WHEN coalesce(sum(bare_ns) FILTER (WHERE is_unsplit) > sum(bare_ns) FILTER (WHERE lacks_ranks), bool_or(is_unsplit))
                THEN format(
                    'other ranks in {} (its share of them is not known)',
                    array_to_string(list_sort(list(DISTINCT if(op = 'unknown', 'calls of an unknown operation', op)) FILTER (WHERE is_unsplit)), ', ')
                )
            WHEN bool_or(NOT is_recorded) FILTER (WHERE lacks_ranks) THEN 'ranks that were not recorded or whose calls were not matched'
            ELSE 'ranks whose calls were not matched'
        END AS unseen,
        coalesce(sum(bare_ns) FILTER (WHERE bytes < {{ param('small_bytes') }}), 0) AS small_ns,
        sum(duration_ns - coalesce(wait_ns, 0)) FILTER (WHERE NOT is_staged AND NOT is_blocking) AS may_hide_ns
    FROM {{ ref('exposed_calls') }}
    HAVING count(*) > 0
),
-- sums count collectives that overlap twice: they only say how the waiting, and the rest, that breakdown has divide
scaled AS (
    SELECT
        c.*,
        s.exposed_wait_ns / greatest(c.exposed_wait_ns, 1) AS of_wait,
        (s.exposed_comm_ns - s.exposed_wait_ns) / greatest(c.exposed_ns - c.exposed_wait_ns, 1) AS of_rest,
        s.compute_ns - s.overlap_ns AS free_compute_ns
    FROM summed AS c CROSS JOIN {{ ref('mean_step') }} AS s
)
SELECT
    of_wait * wait_ns AS wait_ns,
    of_wait * start_ns AS start_ns,
    of_wait * staged_ns AS staged_ns,
    of_rest * one_sided_ns AS one_sided_ns,
    of_rest * bare_ns AS transfer_ns,
    of_rest * read_ns AS read_ns,
    least(of_rest * hideable_ns, free_compute_ns) AS hideable_ns,
    of_rest * doubtful_ns AS doubtful_ns,
    of_rest * doubtful_hideable_ns AS doubtful_hideable_ns,
    unseen,
    1 - hideable_ns / nullif(may_hide_ns, 0) AS hidden_share,
    split,
    calls,
    instances,
    small_ns / nullif(bare_ns, 0) AS small_share,
    u.of_hideable AS hideable_use,
    u.of_transfer AS transfer_uses
FROM scaled CROSS JOIN uses AS u
