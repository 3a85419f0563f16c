-- analysis: findings | what costs this run time, with the numbers that say so and what to try
-- answers: What should be looked at first, what does it cost, and what would help?
-- topic: overview
-- grain: one row per rule that applies, and rank or process group that it is about
-- reads: clocks, collective_instances, collective_waits, collectives, device_ops, gpu_ops, groups, host_ops, memory_events, ranks, sources, steps
-- param: min_share DOUBLE = 0.01 | findings that cost less than this share of the step are left out
-- param: warning_share DOUBLE = 0.05 | from this share of the step on a finding is a warning
-- param: critical_share DOUBLE = 0.2 | from this share of the step on it is critical
-- param: compute_bound_share DOUBLE = 0.8 | compute for at least this share of the step is compute-bound
-- param: comm_bound_share DOUBLE = 0.3 | transfer that no compute hides is a warning from this share of the step on, below it is information
-- param: forward_share DOUBLE = 0.15 | a group that moves at least this share of its bytes in the forward pass carries activations, which compute has to wait for
-- param: poor_overlap DOUBLE = 0.5 | overlap is poor if compute hides less than this share of the transfers that may run beside it
-- param: straggler_factor DOUBLE = 2.0 | a straggler holds the others up for at least this many times as long as the other ranks do on average
-- param: slow_kernels DOUBLE = 0.03 | a rank whose kernels take longer than the others' by this share of their time, and half of their names too, is slow; if it is not half of the names, its work differs
-- param: slower_share DOUBLE = 0.8 | and kernels with at least this share of their time are slower on a slow rank
-- param: kernel_spread DOUBLE = 1.5 | only kernels are compared whose 90th percentile is at most this many times the 10th, on every rank
-- param: slow_link DOUBLE = 1.3 | a group is slow if its transfers take this many times as long as those of its peers
-- param: tail_factor DOUBLE = 2.0 | transfers longer than this many medians of their kind are the tail
-- param: tail_share DOUBLE = 0.25 | if more of them than this share are longer, they are no tail but two kinds
-- param: bucket_bytes BIGINT = 25000000 | collectives smaller than what latency allows could be merged to about this size
-- param: unsteady_share DOUBLE = 0.05 | steps are unsteady if their mean exceeds their median by this share
-- param: fragmentation DOUBLE = 0.2 | memory is fragmented if at least this share of what is reserved is not allocated at the peak
-- param: gpu_memory_bytes BIGINT = NULL | memory of the GPU; fragmentation is a warning where 90 % of it is reserved; NULL: not known
-- column: severity VARCHAR | 'critical', 'warning' or 'info', by what it costs
-- column: rule VARCHAR | which rule: see docs/findings.md
-- column: ranks INTEGER[] | the ranks it is about; NULL: the whole run
-- column: group_id INTEGER | the process group it is about; NULL: none in particular
-- column: cost_ns BIGINT | what it costs per step, at most; NULL where time is not what it costs
-- column: step_share DOUBLE | cost_ns / mean length of a step, 0 to 1
-- column: evidence VARCHAR | what was found, in words with its numbers
-- column: proof VARCHAR | the analysis that shows the rows
-- column: advice VARCHAR | what to try
-- order: cost_ns DESC NULLS LAST, severity, rule, ranks NULLS FIRST, group_id NULLS FIRST
-- caveat: a cost is what the step would gain at most if nothing else stood in the way; costs overlap and do not add up.
-- caveat: in a run without steps, the whole recording of a rank counts as one step.
-- caveat: the wait of a pipeline's stages for each other is pipeline_wait, never a straggler: sends, recvs and collectives over several stages are left out of the other rules about waiting.
-- caveat: nobody is called late by less than what the clocks can tell.
WITH budget AS MATERIALIZED (
    SELECT *
    FROM (SELECT *, bool_or(step IS NOT NULL) OVER () AS has_steps FROM analysis_breakdown() WHERE window_ns > 0)
    WHERE step IS NOT NULL OR NOT has_steps
),
basis AS MATERIALIZED (
    SELECT
        count(*) AS windows,
        count(DISTINCT rank) AS ranks,
        count(DISTINCT step) AS steps,
        avg(window_ns) AS step_ns,
        avg(compute_ns) AS compute_ns,
        avg(comm_ns) AS comm_ns,
        avg(overlap_ns) AS overlap_ns,
        avg(exposed_comm_ns) AS exposed_comm_ns,
        avg(exposed_memory_ns) AS exposed_memory_ns,
        CASE WHEN any_value(has_steps) THEN 'step' ELSE 'recording' END AS unit,
        any_value(has_steps) AS has_steps,
        any_value(timeline) = 'gpu' AS has_gpu
    FROM budget
    -- shorter than 10 us a step is none, and a recording shorter than a millisecond says nothing about a training run
    HAVING avg(window_ns) >= CASE WHEN any_value(has_steps) THEN 10000 ELSE 1000000 END
),
rank_windows AS MATERIALIZED (
    SELECT rank, count(*) AS windows FROM budget GROUP BY rank
),
-- ---- waiting and transfer
-- Groups whose collectives stand in the forward pass: what they carry are activations, which compute waits for, as in
-- tensor and expert parallelism. (All-gathers of parameters, as in FSDP, do so too, but can be started earlier.)
backward_starts AS (
    SELECT rank, step, min(start_ns) AS start_ns
    FROM host_ops
    WHERE starts_with(name, 'autograd::engine')
    GROUP BY rank, step
),
blocking AS MATERIALIZED (
    SELECT k.group_id
    FROM collectives AS k
    JOIN host_ops AS h ON h.op_id = k.host_op_id
    JOIN backward_starts AS s ON s.rank = k.rank AND s.step IS NOT DISTINCT FROM k.step
    WHERE k.op IN ('all_reduce', 'reduce_scatter', 'all_to_all')
    GROUP BY k.group_id
    HAVING sum(k.bytes) FILTER (WHERE h.start_ns < s.start_ns) >= $forward_share * sum(k.bytes)
),
-- neighbouring ranks alone are too little to tell tensor parallelism from a data parallel group within a node
uses AS MATERIALIZED (
    SELECT group_id, used_for FROM tw_group_roles(NULL, NULL) WHERE NOT starts_with(used_source, 'ranks: ')
),
-- bare_ns: what is exposed for another reason than waiting, as far as the traces tell; of messages whose other side is not known, nothing
calls AS MATERIALIZED (
    SELECT
        e.*,
        e.op IN ('send', 'recv') AS is_p2p,
        coalesce(u.used_for, 'unknown') = 'tp' OR k.group_id IS NOT NULL AS is_blocking,
        CASE
            WHEN e.is_staged THEN 'pp'
            WHEN u.used_for = 'dp' AND e.op = 'all_reduce' THEN 'ddp'
            WHEN u.used_for = 'dp' AND e.op IN ('all_gather', 'reduce_scatter') THEN 'fsdp'
            WHEN u.used_for = 'tp' THEN 'tp'
            WHEN e.op = 'all_to_all' THEN 'all_to_all'
            ELSE 'unknown'
        END AS kind,
        CASE WHEN e.wait_ns IS NULL AND e.op IN ('send', 'recv') THEN 0 ELSE e.exposed_ns - coalesce(e.exposed_wait_ns, 0) END AS bare_ns,
        -- who is not seen may have come last
        e.collective_id IS NULL OR i.complete IS FALSE AS lacks_ranks
    FROM analysis_exposed_comm() AS e
    JOIN rank_windows AS r USING (rank)
    CROSS JOIN basis AS b
    LEFT JOIN collective_instances AS i ON i.collective_id = e.collective_id
    LEFT JOIN blocking AS k ON k.group_id = e.group_id
    LEFT JOIN uses AS u ON u.group_id = e.group_id
    WHERE e.step IS NOT NULL OR NOT b.has_steps
),
-- the kind of parallelism that costs most, for the advice
kinds AS (
    SELECT arg_max(kind, (hideable_ns, kind)) AS of_hideable, arg_max(kind, (transfer_ns, kind)) AS of_transfer
    FROM (
        SELECT kind, coalesce(sum(bare_ns) FILTER (WHERE NOT is_staged AND NOT is_blocking), 0) AS hideable_ns, sum(bare_ns) AS transfer_ns
        FROM calls
        GROUP BY kind
    )
),
-- exposed time per window, mean over all; sums count collectives that overlap twice, so shares of them divide the union
comm AS MATERIALIZED (
    SELECT
        b.exposed_comm_ns * coalesce(sum(c.exposed_wait_ns) FILTER (WHERE NOT c.is_staged), 0) / greatest(sum(c.exposed_ns), 1) AS wait_ns,
        b.exposed_comm_ns * coalesce(sum(c.exposed_wait_ns) FILTER (WHERE c.is_staged), 0) / greatest(sum(c.exposed_ns), 1) AS staged_ns,
        b.exposed_comm_ns * coalesce(sum(c.exposed_ns) FILTER (WHERE c.is_p2p AND c.wait_ns IS NULL), 0) / greatest(sum(c.exposed_ns), 1) AS one_sided_ns,
        b.exposed_comm_ns * coalesce(sum(c.bare_ns), 0) / greatest(sum(c.exposed_ns), 1) AS transfer_ns,
        least(
            b.exposed_comm_ns * coalesce(sum(c.bare_ns) FILTER (WHERE NOT c.is_staged AND NOT c.is_blocking), 0) / greatest(sum(c.exposed_ns), 1),
            b.compute_ns - b.overlap_ns
        ) AS hideable_ns,
        b.exposed_comm_ns * coalesce(sum(c.bare_ns) FILTER (WHERE c.lacks_ranks), 0) / greatest(sum(c.exposed_ns), 1) AS doubtful_ns,
        b.exposed_comm_ns * coalesce(sum(c.bare_ns) FILTER (WHERE c.lacks_ranks AND NOT c.is_staged AND NOT c.is_blocking), 0)
            / greatest(sum(c.exposed_ns), 1) AS doubtful_hideable_ns,
        1 - sum(c.bare_ns) FILTER (WHERE NOT c.is_staged AND NOT c.is_blocking)
            / nullif(sum(c.duration_ns - coalesce(c.wait_ns, 0)) FILTER (WHERE NOT c.is_staged AND NOT c.is_blocking), 0) AS hidden_share,
        count(c.wait_ns) AS split,
        count(*) AS calls
    FROM calls AS c CROSS JOIN basis AS b
    GROUP BY b.exposed_comm_ns, b.compute_ns, b.overlap_ns
),
late AS (
    SELECT
        late_rank AS rank,
        sum(late_ns) AS late_ns,
        max(late_ns / windows) AS cost_ns,
        arg_max(rank, late_ns / windows) AS waiter,
        count(*) FILTER (WHERE late_ns > 0) AS waiters
    FROM (
        SELECT c.late_rank, c.rank, sum(c.late_ns) AS late_ns, any_value(r.windows) AS windows
        FROM calls AS c JOIN rank_windows AS r USING (rank)
        WHERE c.late_rank IS NOT NULL AND NOT c.is_staged
        GROUP BY c.late_rank, c.rank
    )
    GROUP BY late_rank
),
blamed AS MATERIALIZED (
    SELECT
        l.*,
        s.cause,
        s.cause_detail,
        s.cause_share,
        s.times_last,
        s.instances,
        (sum(l.cost_ns) OVER () - l.cost_ns) / greatest(b.ranks - 1, 1) AS others_ns,
        s.cause IS DISTINCT FROM 'other_group'
            AND l.cost_ns >= $min_share * b.step_ns
            AND l.cost_ns >= $straggler_factor * (sum(l.cost_ns) OVER () - l.cost_ns) / greatest(b.ranks - 1, 1) AS is_straggler
    FROM late AS l
    JOIN analysis_stragglers() AS s USING (rank)
    CROSS JOIN basis AS b
),
straggler AS (
    SELECT
        'straggler' AS rule,
        [f.rank] AS ranks,
        NULL AS group_id,
        f.cost_ns,
        format('Rank {} keeps {} waiting {} per {}, last in {} of {} collectives',
            f.rank, tw_many(f.waiters, 'rank'), tw_time(f.cost_ns), b.unit, f.times_last, f.instances)
        || CASE f.cause
            WHEN 'compute' THEN ': it computes longer' || coalesce(', most in ' || f.cause_detail || ' kernels', '')
            WHEN 'host_bound' THEN ': its host is late (' || f.cause_detail || ')'
            WHEN 'data_loading' THEN ': it waits for data'
            WHEN 'copies' THEN ': it copies longer'
            WHEN 'unknown_idle' THEN ': it idles longer, no cause recorded'
            ELSE ': no cause found'
        END AS evidence,
        'stragglers' AS proof,
        CASE f.cause
            WHEN 'compute' THEN 'Compare its clock rates, power and temperature with the others''; else its share of the work'
            WHEN 'host_bound' THEN 'Look for what else runs on its CPU cores: binding, logging, checkpoints'
            WHEN 'data_loading' THEN 'More loader workers and prefetching on this rank; check its storage and the size of its samples'
            WHEN 'copies' THEN 'Copy from pinned memory without blocking'
            ELSE 'Record CPU activity and a longer window'
        END AS advice
    FROM blamed AS f CROSS JOIN basis AS b
    WHERE f.is_straggler
),
imbalance AS (
    SELECT
        'imbalance' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        c.wait_ns - coalesce(x.known_ns, 0) AS cost_ns,
        CASE WHEN x.known_ns > 0 THEN 'Beyond the waits for single late ranks, ranks' ELSE 'Ranks' END
        || format(' wait for each other {} per {} without compute, and no single rank is to blame{}',
            tw_time(c.wait_ns - coalesce(x.known_ns, 0)), b.unit, CASE WHEN x.known_ns > 0 THEN ' for that' ELSE '' END) AS evidence,
        'exposed_comm' AS proof,
        'Even out the work (sequence lengths, experts, shards); fewer synchronizing collectives' AS advice
    FROM comm AS c CROSS JOIN basis AS b
    CROSS JOIN (SELECT sum(late_ns) / any_value(b.windows) AS known_ns FROM blamed CROSS JOIN basis AS b WHERE is_straggler OR cause = 'other_group') AS x
),
pipeline_wait AS (
    SELECT
        'pipeline_wait' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        c.staged_ns + c.one_sided_ns AS cost_ns,
        CASE
            WHEN c.one_sided_ns = 0 THEN format('Stages of the pipeline wait for each other {} per {}, mean over the ranks', tw_time(c.staged_ns), b.unit)
            ELSE format('Sends and receives take {} per {} without compute, mean over the ranks. Waiting in them for the other stage is the'
                ' bubble of a pipeline; how much is transfer cannot be told, as their other sides are not known',
                tw_time(c.staged_ns + c.one_sided_ns), b.unit)
        END AS evidence,
        'pipeline' AS proof,
        'More micro-batches per step, an interleaved schedule, evenly filled stages' AS advice
    FROM comm AS c CROSS JOIN basis AS b
    WHERE c.staged_ns + c.one_sided_ns > 0
),
poor_overlap AS (
    SELECT
        'poor_overlap' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        c.hideable_ns AS cost_ns,
        CASE
            WHEN c.doubtful_hideable_ns < $min_share * b.step_ns THEN
                format('Compute hides {} of the transfers that may run beside it; {} more per {} could, at most',
                    tw_percent(c.hidden_share), tw_time(c.hideable_ns), b.unit)
            ELSE format('Compute hides {} of the communication that may run beside it, waiting for ranks that were not seen included; {} more per {} could, at most',
                tw_percent(c.hidden_share), tw_time(c.hideable_ns), b.unit)
        END AS evidence,
        'exposed_comm' AS proof,
        CASE k.of_hideable
            WHEN 'ddp' THEN 'DDP: several buckets of gradients (bucket_cap_mb), reduced during backward: see ddp_buckets'
            WHEN 'fsdp' THEN 'FSDP: gather the parameters of the next unit during the compute of this one (forward and backward prefetch): see fsdp'
            WHEN 'all_to_all' THEN 'all_to_all of experts or sequences: in parts, beside compute of another part or micro-batch'
            ELSE 'Start them earlier and asynchronously, beside compute that does not need their result: gradients during backward, parameters ahead of use'
        END AS advice
    FROM comm AS c CROSS JOIN basis AS b CROSS JOIN kinds AS k
    WHERE c.split > 0 AND c.hidden_share < $poor_overlap
),
communication_bound AS (
    SELECT
        'communication_bound' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        c.transfer_ns - coalesce(p.cost_ns, 0) AS cost_ns,
        CASE
            WHEN c.split > 0 THEN format('{} of each {} is {} that no compute hides{}{}',
                tw_time(c.transfer_ns - coalesce(p.cost_ns, 0)), b.unit,
                CASE WHEN w.may_wait THEN 'communication' ELSE 'transfer' END,
                CASE WHEN p.cost_ns > 0 THEN ' or could' ELSE '' END,
                CASE WHEN w.may_wait THEN '; waiting for ranks that were not seen may be part of it' ELSE '' END)
            ELSE format('{} of each {} is communication that no compute hides; waiting is part of it, as no other rank shows the same calls',
                tw_time(c.transfer_ns), b.unit)
        END AS evidence,
        CASE WHEN c.split > 0 THEN 'bandwidth' ELSE 'breakdown' END AS proof,
        CASE k.of_transfer
            WHEN 'ddp' THEN 'DDP: send less (gradient accumulation with no_sync, gradients in lower precision)'
            WHEN 'fsdp' THEN 'FSDP: send less (shards within a node only, fewer gathers, lower precision, larger batches)'
            WHEN 'tp' THEN 'Tensor parallelism: fewer ranks per group, all within a node, or its transfers in pieces beside the matrix products (async TP): see tp'
            WHEN 'all_to_all' THEN 'all_to_all of experts or sequences: groups within a node, lower precision'
            WHEN 'pp' THEN 'Pipeline: fewer or smaller messages (stages cut where activations are small, lower precision): see pipeline'
            ELSE 'Send less (lower precision, groups within a node)'
        END || '; or find out why it is slow: bandwidth against the links'' peak' AS advice
    FROM comm AS c CROSS JOIN basis AS b CROSS JOIN kinds AS k LEFT JOIN poor_overlap AS p ON p.cost_ns >= $min_share * b.step_ns
    CROSS JOIN LATERAL (
        SELECT c.doubtful_ns - least(c.doubtful_hideable_ns, coalesce(p.cost_ns, 0)) >= $min_share * b.step_ns AS may_wait
    ) AS w
),
-- ---- collectives: latency, links, tails
small AS (
    SELECT
        c.op,
        c.group_id,
        any_value(c.kind) AS kind,
        any_value(f.alpha_ns) AS alpha_ns,
        any_value(f.half_bytes) AS half_bytes,
        count(*) AS calls,
        count(DISTINCT c.rank) AS ranks,
        sum(c.bytes) AS bytes,
        sum(c.bare_ns) AS exposed_ns
    FROM calls AS c JOIN analysis_alpha_beta() AS f ON f.op = c.op AND f.group_id = c.group_id
    WHERE c.bytes < 4 * f.half_bytes AND NOT c.is_staged AND NOT c.is_blocking
    GROUP BY c.op, c.group_id
),
small_collectives AS (
    SELECT
        'small_collectives' AS rule,
        NULL AS ranks,
        s.group_id,
        -- per rank of the group; what latency costs cannot be more than what is exposed
        least(s.alpha_ns * greatest(s.calls - ceil(s.bytes / $bucket_bytes), 0), s.exposed_ns) / b.windows AS cost_ns,
        format('{} {} per {} and rank, {} on average; each costs {} before its first byte, as much as {} take to transfer',
            round(s.calls / b.windows * b.ranks / s.ranks)::BIGINT, s.op, b.unit, tw_size(s.bytes / s.calls), tw_time(s.alpha_ns), tw_size(s.half_bytes)) AS evidence,
        'alpha_beta' AS proof,
        'Merge them: ' || CASE s.kind
            WHEN 'ddp' THEN 'larger DDP buckets (bucket_cap_mb)'
            WHEN 'fsdp' THEN 'larger FSDP units'
            ELSE 'coalesced collectives, fewer and larger tensors'
        END AS advice
    FROM small AS s CROSS JOIN basis AS b
),
rates AS MATERIALIZED (
    SELECT op, group_id, ranks, instances, measured, transfer_p50_ns, peer_ratio, bytes
    FROM analysis_bandwidth()
    -- with a member missing, waiting for it looks like transfer
    WHERE peer_ratio IS NOT NULL AND group_id IS NOT NULL AND op <> 'send_recv' AND incomplete = 0
),
slow_groups AS (
    SELECT
        group_id,
        sum((transfer_p50_ns - transfer_p50_ns / peer_ratio) * instances) AS excess_ns,
        sum(transfer_p50_ns * instances) / sum(transfer_p50_ns / peer_ratio * instances) AS ratio
    FROM rates
    GROUP BY group_id
    HAVING ratio >= $slow_link AND excess_ns > 0
),
-- a rank all of whose comparable groups are slow, if it is the only one
suspects AS (
    SELECT rank, count(s.group_id) AS slow, count(*) AS compared
    FROM (SELECT DISTINCT group_id FROM rates) AS r
    JOIN (SELECT group_id, unnest(ranks) AS rank FROM groups) AS g USING (group_id)
    LEFT JOIN slow_groups AS s USING (group_id)
    GROUP BY rank
    HAVING slow = compared
    QUALIFY count(*) OVER () = 1 AND slow > 1
),
exposures AS (
    SELECT group_id, sum(bare_ns) / sum(duration_ns - coalesce(wait_ns, 0)) AS exposed_share
    FROM calls
    WHERE duration_ns > coalesce(wait_ns, 0)
    GROUP BY group_id
),
slow_transfers AS (
    SELECT
        CASE WHEN x.rank IS NOT NULL THEN [x.rank] ELSE g.ranks END AS ranks,
        CASE WHEN x.rank IS NULL THEN s.group_id END AS group_id,
        s.excess_ns * e.exposed_share AS excess_ns,
        s.ratio
    FROM slow_groups AS s
    JOIN groups AS g USING (group_id)
    JOIN exposures AS e USING (group_id)
    LEFT JOIN suspects AS x ON list_contains(g.ranks, x.rank)
),
slow_link AS (
    SELECT
        'slow_link' AS rule,
        s.ranks,
        s.group_id,
        -- the groups of one rank come one after the other
        sum(s.excess_ns) / greatest(b.steps, 1) AS cost_ns,
        format('Transfers of {} take {} times as long as those of groups of the same size',
            CASE WHEN s.group_id IS NULL THEN format('all {} groups of {}', count(*), tw_ranks(s.ranks))
                ELSE 'group ' || s.group_id END,
            tw_digits(max(s.ratio))) AS evidence,
        'bandwidth' AS proof,
        'Test its links alone (nccl-tests, nvidia-smi nvlink, ibstat); look for a cable, port or NIC that runs slower' AS advice
    FROM slow_transfers AS s CROSS JOIN basis AS b
    GROUP BY s.ranks, s.group_id, b.steps
),
tailed AS (
    SELECT
        c.collective_id,
        c.op,
        c.group_id,
        c.bytes,
        any_value(i.transfer_min_ns) AS transfer_ns,
        avg(c.exposed_transfer_ns) AS exposed_ns,
        count(*) AS ranks
    FROM calls AS c JOIN collective_instances AS i USING (collective_id)
    WHERE c.exposed_transfer_ns IS NOT NULL AND c.bytes IS NOT NULL AND NOT c.is_p2p
    GROUP BY c.collective_id, c.op, c.group_id, c.bytes
),
tail_medians AS (
    SELECT
        *,
        quantile_disc(transfer_ns, 0.5) OVER kind AS median_ns,
        count(*) OVER kind AS instances
    FROM tailed
    WINDOW kind AS (PARTITION BY op, group_id, bytes)
),
long_tail AS (
    SELECT
        'long_tail' AS rule,
        NULL AS ranks,
        t.group_id,
        sum(least(t.transfer_ns - t.median_ns, t.exposed_ns) * t.ranks) FILTER (WHERE t.is_tail) / any_value(b.windows) AS cost_ns,
        format('{} of {} {} transfers take more than {} times the median of their size, the longest {} against {}',
            count(*) FILTER (WHERE t.is_tail), count(*), t.op, tw_digits($tail_factor), tw_time(max(t.transfer_ns) FILTER (WHERE t.is_tail)),
            tw_time(arg_max(t.median_ns, t.transfer_ns) FILTER (WHERE t.is_tail))) AS evidence,
        'tails' AS proof,
        'Look for what shares the network or the GPUs at those moments; check links for retries and errors' AS advice
    FROM (SELECT *, transfer_ns > $tail_factor * median_ns AS is_tail FROM tail_medians WHERE instances >= 5) AS t CROSS JOIN basis AS b
    GROUP BY t.op, t.group_id
    HAVING count(*) FILTER (WHERE t.is_tail) BETWEEN 1 AND $tail_share * count(*)
),
-- ---- idling
idle_by_rank AS MATERIALIZED (
    SELECT
        i.rank,
        i.cause,
        sum(i.idle_ns) / any_value(r.windows) AS idle_ns,
        CAST(sum(i.gaps) AS BIGINT) / any_value(r.windows) AS gaps
    FROM analysis_idle_causes() AS i
    JOIN rank_windows AS r USING (rank)
    CROSS JOIN basis AS b
    WHERE (i.step IS NOT NULL OR NOT b.has_steps) AND (i.timeline = 'gpu' OR i.cause = 'data_loading')
    GROUP BY i.rank, i.cause
),
-- what the host is in for a third of that time or more
idle_hosts AS (
    SELECT cause, host_op
    FROM (
        SELECT i.cause, i.host_op, sum(i.host_op_ns) AS host_op_ns, sum(sum(i.idle_ns)) OVER (PARTITION BY i.cause) AS idle_ns
        FROM analysis_idle_causes() AS i
        GROUP BY i.cause, i.host_op
    )
    WHERE host_op IS NOT NULL AND 3 * host_op_ns >= idle_ns
    QUALIFY row_number() OVER (PARTITION BY cause ORDER BY host_op_ns DESC, host_op) = 1
),
-- where most ranks have it, what it costs on average; else what it costs those that hold the others up
idle_by_cause AS (
    SELECT
        i.cause,
        2 * count(*) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) > b.ranks AS is_common,
        sum(i.idle_ns) / b.ranks AS mean_ns,
        avg(i.idle_ns) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS affected_ns,
        list(i.rank ORDER BY i.rank) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS affected,
        avg(i.gaps) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS gaps,
        bool_and(f.rank IS NOT NULL) FILTER (WHERE i.idle_ns >= i.worst_ns / 2) AS is_blamed
    FROM (SELECT *, max(idle_ns) OVER (PARTITION BY cause) AS worst_ns FROM idle_by_rank) AS i
    LEFT JOIN (SELECT rank FROM blamed WHERE is_straggler) AS f USING (rank)
    CROSS JOIN basis AS b
    GROUP BY i.cause, b.ranks
),
idling AS (
    SELECT
        CASE i.cause
            WHEN 'launch_bound' THEN 'launch_bound'
            WHEN 'sync' THEN 'sync_bound'
            WHEN 'data_loading' THEN 'data_bound'
            WHEN 'unknown' THEN 'unexplained_idle'
            WHEN 'dependency' THEN 'unexplained_idle'
            ELSE 'short_gaps'
        END AS rule,
        CASE WHEN NOT i.is_common THEN i.affected END AS ranks,
        NULL AS group_id,
        CASE WHEN i.is_common THEN i.mean_ns ELSE i.affected_ns END AS cost_ns,
        format('The {} idles {} per {}{}', CASE WHEN b.has_gpu THEN 'GPU' ELSE 'host' END, tw_time(CASE WHEN i.is_common THEN i.mean_ns ELSE i.affected_ns END), b.unit,
            CASE WHEN i.is_common THEN '' ELSE ' on ' || tw_ranks(i.affected) END)
        || CASE i.cause
            WHEN 'launch_bound' THEN ' because the host launches late'
            WHEN 'sync' THEN ' after the host waited for it'
            WHEN 'data_loading' THEN CASE WHEN b.has_gpu THEN ' while the host waits for data' ELSE ' while it waits for data' END
            WHEN 'unknown' THEN ', though work was queued or its launch is not recorded'
            WHEN 'dependency' THEN ' waiting for another stream'
            ELSE ' between kernels that were queued'
        END
        || coalesce(format(' ({})', tw_about(i.gaps, 'gap')), '')
        || coalesce(', most in ' || CASE WHEN length(h.host_op) > 60 THEN left(h.host_op, 59) || '…' ELSE h.host_op END, '') AS evidence,
        'idle_causes' AS proof,
        CASE i.cause
            WHEN 'launch_bound' THEN 'CUDA graphs, torch.compile, fused operators, fewer Python layers; larger batches per kernel'
            WHEN 'sync' THEN 'Remove .item(), .cpu(), printing and synchronize from the loop, or do them every n steps: see syncs'
            WHEN 'data_loading' THEN 'More loader workers, pin_memory, prefetch_factor; load and transform ahead of the step'
            WHEN 'unknown' THEN 'See gaps: work that waits for events, another process on the GPU, or a recording without CPU activity'
            WHEN 'dependency' THEN 'Start that stream''s work earlier'
            ELSE 'Larger or fused kernels, CUDA graphs'
        END AS advice
    FROM idle_by_cause AS i CROSS JOIN basis AS b LEFT JOIN idle_hosts AS h USING (cause)
    -- a rank that is blamed for it already is not blamed twice
    WHERE i.is_common OR i.cause NOT IN ('launch_bound', 'sync', 'data_loading') OR NOT i.is_blamed
),
-- ---- copies, kernels, steps
pageable AS (
    SELECT
        c.rank,
        sum(c.time_ns - c.compute_overlap_ns) / any_value(r.windows) AS exposed_ns,
        sum(c.bytes) / any_value(r.windows) AS bytes,
        sum(c.bytes) / sum(c.time_ns) AS rate_gbps
    FROM analysis_copies() AS c JOIN rank_windows AS r USING (rank)
    WHERE c.host_memory = 'pageable'
    GROUP BY c.rank
),
pageable_copies AS (
    SELECT
        'pageable_copies' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        sum(p.exposed_ns) / any_value(b.ranks) AS cost_ns,
        format('Copies between the GPU and pageable memory take {} per {} without compute: {} at {} GB/s',
            tw_time(sum(p.exposed_ns) / any_value(b.ranks)), any_value(b.unit), tw_size(avg(p.bytes)), tw_digits(avg(p.rate_gbps))) AS evidence,
        'copies' AS proof,
        'pin_memory=True and .to(device, non_blocking=True); keep the data on the GPU' AS advice
    FROM pageable AS p CROSS JOIN basis AS b
    HAVING count(*) > 0
),
exposed_copies AS (
    SELECT
        'exposed_copies' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        b.exposed_memory_ns - coalesce(p.cost_ns, 0) AS cost_ns,
        format('Copies and memsets run alone for {} per {}', tw_time(b.exposed_memory_ns - coalesce(p.cost_ns, 0)), b.unit) AS evidence,
        'copies' AS proof,
        'Move them to a stream of their own, or avoid them' AS advice
    FROM basis AS b LEFT JOIN pageable_copies AS p ON TRUE
),
kernel_medians AS (
    SELECT
        rank,
        name,
        count(*) / any_value(windows) AS count,
        quantile_disc(duration_ns, 0.5) AS median_ns,
        quantile_disc(duration_ns, 0.9) / greatest(quantile_disc(duration_ns, 0.1), 1) AS spread
    FROM gpu_ops JOIN rank_windows USING (rank)
    WHERE category = 'compute' AND kind = 'kernel'
    GROUP BY rank, name
),
-- each name beside the median of the other ranks; a kernel whose own durations differ widely does different work from call to call: no yardstick
kernel_excess AS MATERIALIZED (
    SELECT
        rank,
        name,
        count * (median_ns - usual_ns) AS excess_ns,
        count * usual_ns AS usual_ns,
        median_ns / usual_ns AS ratio
    FROM (
        SELECT
            *,
            median(median_ns) OVER (
                PARTITION BY name ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
            ) AS usual_ns,
            max(spread) OVER (PARTITION BY name) AS widest_spread
        FROM kernel_medians
    )
    WHERE usual_ns > 0 AND widest_spread <= $kernel_spread
),
-- heavy: the fewest names with nine tenths of what is longer
kernel_times AS MATERIALIZED (
    SELECT
        rank,
        sum(excess_ns) AS excess_ns,
        sum(excess_ns) / sum(usual_ns) AS longer_share,
        coalesce(sum(usual_ns) FILTER (WHERE excess_ns > 0), 0) / sum(usual_ns) AS slower_share,
        median(ratio) - 1 AS typical_share,
        count(*) AS names,
        count(*) FILTER (WHERE excess_ns > 0 AND coalesce(before_ns, 0) < 0.9 * longer_ns) AS heavy,
        arg_max(name, (excess_ns, name)) AS heaviest
    FROM (
        SELECT
            *,
            sum(greatest(excess_ns, 0)) OVER (
                PARTITION BY rank ORDER BY excess_ns DESC, name ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before_ns,
            sum(greatest(excess_ns, 0)) OVER (PARTITION BY rank) AS longer_ns
        FROM kernel_excess
    )
    GROUP BY rank
    HAVING sum(excess_ns) >= $slow_kernels * sum(usual_ns)
        AND rank NOT IN (SELECT rank FROM blamed WHERE is_straggler AND cause = 'compute')
),
-- a slow GPU is slow at nearly everything; other work is slower at some of it
slow_kernels AS (
    SELECT
        'slow_kernels' AS rule,
        [k.rank] AS ranks,
        NULL AS group_id,
        k.excess_ns AS cost_ns,
        format('The same kernels take {} longer on rank {} than on {}, half of {} kernel names {} or more',
            tw_percent(k.longer_share), k.rank, CASE WHEN b.ranks = 2 THEN 'the other' ELSE 'the others at the median' END,
            k.names, tw_percent(k.typical_share)) AS evidence,
        'kernels' AS proof,
        'Compare clock rates, power limit, temperature and ECC errors of its GPU with the others''; else the shapes it works on' AS advice
    FROM kernel_times AS k CROSS JOIN basis AS b
    WHERE k.typical_share >= $slow_kernels AND k.slower_share >= $slower_share
),
uneven_work AS (
    SELECT
        'uneven_work' AS rule,
        [k.rank] AS ranks,
        NULL AS group_id,
        k.excess_ns AS cost_ns,
        format('Rank {} spends {} more per {} in the same kernels than {}, 90% of it in {} of {} kernel names, most in {}; half of the names are slower by {} at most',
            k.rank, tw_time(k.excess_ns), b.unit, CASE WHEN b.ranks = 2 THEN 'the other' ELSE 'the others at the median' END,
            k.heavy, k.names, CASE WHEN length(k.heaviest) > 60 THEN left(k.heaviest, 59) || '…' ELSE k.heaviest END,
            tw_percent(greatest(k.typical_share, 0))) AS evidence,
        'kernels' AS proof,
        'Even out what these kernels work on (shards of tables, lengths of sequences, experts); where all ranks should do the same, compare clock rates and power limits of the GPUs' AS advice
    FROM kernel_times AS k CROSS JOIN basis AS b
    WHERE k.typical_share < $slow_kernels
),
unsteady_steps AS (
    SELECT
        'unsteady_steps' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        mean_ns - p50_ns AS cost_ns,
        format('Steps take {} at the median, {} on average; the longest, step {}, {}',
            tw_time(p50_ns), tw_time(mean_ns), longest, tw_time(max_ns)) AS evidence,
        'breakdown' AS proof,
        'See what grew in the long steps: evaluation, checkpoints, garbage collection, recompilation, longer inputs' AS advice
    FROM tw_steadiness('budget')
    WHERE steps >= 3 AND mean_ns - p50_ns >= $unsteady_share * p50_ns
),
costs AS (
    SELECT * FROM straggler
    UNION ALL SELECT * FROM imbalance
    UNION ALL SELECT * FROM pipeline_wait
    UNION ALL SELECT * FROM communication_bound
    UNION ALL SELECT * FROM poor_overlap
    UNION ALL SELECT * FROM small_collectives
    UNION ALL SELECT * FROM slow_link
    UNION ALL SELECT * FROM long_tail
    UNION ALL SELECT * FROM idling
    UNION ALL SELECT * FROM pageable_copies
    UNION ALL SELECT * FROM exposed_copies
    UNION ALL SELECT * FROM slow_kernels
    UNION ALL SELECT * FROM uneven_work
    UNION ALL SELECT * FROM unsteady_steps
),
costly AS (
    SELECT
        CASE
            -- what the schedule or the missing record makes it is no fault
            WHEN c.rule = 'pipeline_wait' THEN 'info'
            WHEN c.rule = 'communication_bound' AND c.cost_ns < $comm_bound_share * b.step_ns THEN 'info'
            WHEN c.cost_ns >= $critical_share * b.step_ns THEN 'critical'
            WHEN c.cost_ns >= $warning_share * b.step_ns THEN 'warning'
            ELSE 'info'
        END AS severity,
        c.rule,
        c.ranks,
        c.group_id,
        CAST(round(c.cost_ns) AS BIGINT) AS cost_ns,
        c.cost_ns / b.step_ns AS step_share,
        c.evidence,
        c.proof,
        c.advice
    FROM costs AS c CROSS JOIN basis AS b
    WHERE c.cost_ns >= $min_share * b.step_ns AND c.cost_ns > 0
),
-- ---- what costs no time
compute_bound AS (
    SELECT
        'info' AS severity,
        'compute_bound' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        format('{} for {} of the {}', CASE WHEN has_gpu THEN 'Compute runs' ELSE 'No GPU work was recorded; operators on the CPU run' END,
            tw_percent(compute_ns / step_ns), unit) AS evidence,
        'breakdown' AS proof,
        CASE
            WHEN has_gpu THEN 'Faster kernels: lower precision, fused attention and optimizers, torch.compile; see kernels'
            ELSE 'See host_ops; if the run has a GPU, record CUDA activity. A file that was cut off lacks its kernels'
        END AS advice
    FROM basis
    WHERE compute_ns >= $compute_bound_share * step_ns
),
fragmented AS (
    SELECT
        CASE WHEN max(peak_reserved_bytes) >= 0.9 * $gpu_memory_bytes THEN 'warning' ELSE 'info' END AS severity,
        'fragmentation' AS rule,
        list(rank ORDER BY rank) AS ranks,
        NULL AS group_id,
        format('{} of {} reserved memory is not allocated at the peak ({}), most on rank {}',
            tw_size(arg_max(reserved_at_peak_bytes - peak_allocated_bytes, fragmentation_at_peak)),
            tw_size(arg_max(reserved_at_peak_bytes, fragmentation_at_peak)), tw_percent(max(fragmentation_at_peak)),
            arg_max(rank, fragmentation_at_peak)) AS evidence,
        'memory' AS proof,
        'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; fewer different sizes' AS advice
    FROM analysis_memory()
    WHERE fragmentation_at_peak >= $fragmentation
    HAVING count(*) > 0
),
clock_notes AS (
    SELECT
        CASE
            WHEN u.unresolved_ns >= $warning_share * b.step_ns OR max(q.violations) > 0 THEN 'warning'
            ELSE 'info'
        END AS severity,
        'weak_clocks' AS rule,
        nullif(list(DISTINCT q.rank ORDER BY q.rank) FILTER (WHERE q.residual_p95_ns IS NULL OR q.violations > 0), []) AS ranks,
        NULL AS group_id,
        concat_ws('; ',
            CASE WHEN u.unresolved_ns > 0 THEN
                format('Clocks tell ranks apart by {}; {} per {} of waiting is below that, so who is late there is not known',
                    coalesce(CASE WHEN count(q.residual_p95_ns) = count(*) THEN tw_time(max(q.residual_p95_ns)) END, 'an unknown time'),
                    tw_time(u.unresolved_ns), b.unit) END,
            CASE WHEN max(q.violations) > 0 THEN format('{} collectives end before they begin', max(q.violations)) END) AS evidence,
        'clock_quality' AS proof,
        'Record all ranks over the same steps, longer, with collectives that all of them share; run traceweave align' AS advice
    FROM analysis_clock_quality() AS q
    CROSS JOIN basis AS b
    CROSS JOIN (
        SELECT coalesce(sum(c.exposed_wait_ns), 0) / (SELECT windows FROM basis) AS unresolved_ns
        FROM calls AS c JOIN collective_instances AS i USING (collective_id)
        WHERE i.below_resolution AND NOT c.is_staged
    ) AS u
    WHERE q.instances > 0
    GROUP BY u.unresolved_ns, b.step_ns, b.unit
    HAVING u.unresolved_ns >= $min_share * b.step_ns OR max(q.violations) > 0
),
missing_ranks AS (
    SELECT
        'info' AS severity,
        'missing_ranks' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        format('{} of {} ranks recorded: who the others wait for among the missing is not seen', count(*), max(world_size)) AS evidence,
        'pop' AS proof,
        'Record every rank' AS advice
    FROM ranks
    HAVING count(*) < max(world_size)
),
lost_events AS (
    SELECT
        'warning' AS severity,
        'lost_events' AS rule,
        NULL AS ranks,
        NULL AS group_id,
        format('{} of {} read in part or not at all; {} events are not here',
            count(*) FILTER (WHERE status <> 'ok'), tw_many(count(*), 'file'), CAST(sum(events_skipped) FILTER (WHERE status <> 'ok') AS BIGINT)) AS evidence,
        'steps' AS proof,
        'See traceweave info for what was lost; record again' AS advice
    FROM sources
    HAVING count(*) FILTER (WHERE status <> 'ok') > 0
),
no_work AS (
    SELECT
        'warning' AS severity,
        'nothing_to_measure' AS rule,
        list(rank ORDER BY rank) AS ranks,
        NULL AS group_id,
        CASE
            WHEN count(*) = any_value(recorded) THEN 'No rank holds GPU work or operators'
            ELSE format('{} of {} {} no {}: no number here counts {}', count(*), tw_many(any_value(recorded), 'rank'),
                CASE WHEN count(*) = 1 THEN 'holds' ELSE 'hold' END,
                CASE WHEN EXISTS (FROM device_ops WHERE timeline = 'gpu') THEN 'GPU work, unlike the others' ELSE 'operators' END,
                CASE WHEN count(*) = 1 THEN 'it' ELSE 'them' END)
        END AS evidence,
        'breakdown' AS proof,
        'Record CUDA activity (ProfilerActivity.CUDA, nsys --trace=cuda,nvtx); a Kineto file that was cut off lacks its kernels' AS advice
    FROM (SELECT rank, count(*) OVER () AS recorded FROM ranks)
    WHERE rank NOT IN (SELECT rank FROM device_ops)
    HAVING count(*) > 0
),
uneven_recordings AS (
    SELECT
        'info' AS severity,
        'uneven_recording' AS rule,
        list(rank ORDER BY rank) FILTER (WHERE windows < most) AS ranks,
        NULL AS group_id,
        format('{} recorded fewer steps than the others: {} against {}',
            tw_ranks(list(rank ORDER BY rank) FILTER (WHERE windows < most)), min(windows), max(most)) AS evidence,
        'steps' AS proof,
        'Start and stop the profiler at the same step on every rank' AS advice
    FROM (SELECT *, max(windows) OVER () AS most FROM rank_windows)
    HAVING count(*) FILTER (WHERE windows < most) > 0
),
notes AS (
    SELECT * FROM compute_bound
    UNION ALL SELECT * FROM fragmented
    UNION ALL SELECT * FROM clock_notes
    UNION ALL SELECT * FROM missing_ranks
    UNION ALL SELECT * FROM lost_events
    UNION ALL SELECT * FROM no_work
    UNION ALL SELECT * FROM uneven_recordings
)
SELECT severity, rule, ranks, group_id, cost_ns, step_share, evidence, proof, advice
FROM (
    SELECT severity, rule, ranks, group_id, cost_ns, step_share, evidence, proof, advice FROM costly
    UNION ALL
    SELECT severity, rule, ranks, group_id, NULL, NULL, evidence, proof, advice FROM notes
)
ORDER BY cost_ns DESC NULLS LAST, severity, rule, ranks NULLS FIRST, group_id NULLS FIRST
