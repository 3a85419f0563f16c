-- rule: straggler | waiting for a straggler
-- topic: ranks and waiting
-- needs: ref('blame')
-- finds: A rank that arrives last at collectives while the others have nothing else to do; of stages of a pipeline, as far as it idles longer than the others in most steps. Cost: the exposed wait of the rank that waits most for it, from the arrival of the last but one to its own (`late_ns` of `exposed_comm`). It has to be at least `straggler_factor` times what the other ranks cause on average, and more than chance makes of ranks that are alike: one of those is late as often and as long with a probability of at most `straggler_chance` (10 %; `chance` of `stragglers`). Where it computes longer because it is given more, its scenario divides the work evenly, step by step where it is not given more in all of them: by the sizes of all_to_all or of the inputs of what it runs as often as the others (1.1 times the mean or more). Where it runs in every step more often what the others run too, and calls as long as theirs are at least half of what it takes longer, the recording does not tell whether that can be left out or has to be divided, unless the others wait for what it sends: the cost is what dividing gains, and the evidence says what leaving it out does. Who computes no longer than its like (`uneven_work`) is none for its compute. The cause is that of `stragglers`: longer compute, a late host, data, copies. Where at least 80 % of the waiting is in one step, of three at least, the evidence names it. Where it alone computes longer and runs nothing that torch.compile made, that is why. The evidence ends with what it does more, longer or alone, by `rank_difference`, where that is at least a third of the cost: the kernel, operator or range, or of a late host its idling, and in which steps. A rank that is late because it waited in another group is not blamed: what others wait for it goes to the rank where that chain begins (`origin_wait_ns` of `stragglers`), and the evidence names the ranks in between.
-- try: For compute, compare clock rates, power and temperature, without a GPU the load on its cores; for the host, other load on its cores; for data, its loader and its storage.
-- proof: stragglers
-- shows: waits
WITH compiled AS (
    SELECT rank, compile_ns - coalesce(max(compile_ns) OVER (ORDER BY rank ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW), 0) AS more_ns
    FROM (SELECT c.rank, sum(c.compile_ns) / greatest(any_value(s.steps), 1) AS compile_ns FROM {{ ref('compiling') }} AS c CROSS JOIN {{ ref('mean_step') }} AS s GROUP BY c.rank)
),
-- the one that runs nothing that torch.compile made, where all others do
eager AS (
    SELECT rank FROM ranks ANTI JOIN (SELECT DISTINCT rank FROM host_ops WHERE name IN (SELECT name FROM tw_range_names WHERE compiles = 'runs')) USING (rank)
    QUALIFY count(*) OVER () = 1 AND (SELECT count(*) FROM ranks) > 1
),
-- those that record less than others
unlike AS (
    SELECT rank FROM recording WHERE kind = 'other settings'
)
SELECT
    format('Rank {} {}', b.rank, CASE b.cause
        WHEN 'compute' THEN CASE WHEN w.compiles THEN 'compiles code' WHEN w.is_eager THEN 'runs eager code' ELSE 'computes longer' END
        WHEN 'host_bound' THEN CASE b.cause_detail
            WHEN 'launch_bound' THEN 'launches late'
            WHEN 'sync' THEN 'waits for its GPU'
            WHEN 'allocator' THEN 'reallocates memory'
            WHEN 'module_loading' THEN 'loads code'
            ELSE 'has a late host'
        END
        WHEN 'data_loading' THEN 'waits for data'
        WHEN 'copies' THEN 'copies longer'
        WHEN 'device_delay' THEN 'starts GPU work late'
        WHEN 'unknown_idle' THEN 'idles longer'
        ELSE 'comes late'
    END)
    || CASE WHEN m.step IS NULL THEN format(', and {} for it', w.waits) ELSE format(' in step {}; {}', m.step, w.waits) END AS title,
    [b.rank] AS ranks,
    b.cost_ns,
    'waits step=' || m.step AS shows,
    -- what is divided unevenly is not done by nobody when it is divided evenly; where inputs are not larger in all steps, step by step
    CASE WHEN w.is_divided THEN concat_ws(' ', 'step=' || x.steps, 'kind=compute like=mean')
    WHEN w.is_share THEN 'kind=compute like=mean'
    ELSE tw_as_others('rank=' || b.rank, b.cause) END AS scenario,
    -- what it runs more often may be left out instead: the recording does not tell
    CASE WHEN w.is_share AND NOT w.is_divided THEN w.as_others END AS remedy,
    format('Rank {} keeps {} waiting {} per {}, last in {} of {}', b.rank, tw_many(b.waiters, 'rank'), tw_time(b.cost_ns), s.unit,
        b.known_last, tw_many(b.known_instances, 'collective'))
    || CASE WHEN b.known_instances < b.instances THEN ' where the clocks resolve it' ELSE '' END
    || CASE WHEN b.known_instances <= 2 THEN ', too few to generalize' ELSE '' END
    || coalesce('. Most of the waiting is in step ' || m.step, '')
    || '. ' || CASE WHEN b.cause = 'unknown_idle' AND d.host_op IS NOT NULL THEN format('Rank {} idles longer', b.rank)
        WHEN w.compiles THEN format('Rank {} compiles code', b.rank)
        WHEN w.is_eager THEN format('Rank {} runs eager code where all others run what torch.compile made', b.rank)
        ELSE coalesce(tw_who_does('Rank ' || b.rank, c.words), 'No cause was found') END
    || CASE b.cause
        WHEN 'compute' THEN coalesce(', most in ' || b.cause_detail || ' kernels', '')
            || CASE WHEN w.is_divided THEN format('. By the {}, rank {} gets {} times the mean', x.what, b.rank, tw_digits(x.times_mean)) ELSE '' END
        WHEN 'host_bound' THEN ' (' || b.cause_detail || ')'
        ELSE ''
    END
    || CASE WHEN b.cause_share < 0.8 THEN format(', in {} of the waiting', tw_percent(b.cause_share)) ELSE '' END
    || CASE WHEN b.cause = 'compute' THEN coalesce(format('. Its inputs of {} are of type {}, those of the others are not', tw_shortened(y.name), y.type), '') ELSE '' END
    || coalesce(format('. Rank {} also holds up {}, for which others wait', b.rank, tw_ranks(b.held_up)), '')
    || coalesce('. ' || d.does, '') AS evidence,
    CASE
        WHEN w.compiles THEN tw_compile_before(b.rank)
        WHEN w.is_eager THEN format('Pad inputs to few shapes, or raise torch._dynamo.config.recompile_limit, past which code runs eager. TORCH_LOGS=recompiles on rank {} shows why', b.rank)
        WHEN m.step IS NOT NULL THEN tw_see_what(b.rank, [m.step], m.since_step)
        WHEN b.cause = 'compute' AND (b.updates OR b.sends AND d.kind = 'range' AND d.others_ns = 0 AND {{ names('optimizer_ranges', 'd.name') }} IS NOT NULL) THEN format('The others wait for parameters that rank {} updates: divide what the optimizer updates evenly over the ranks', b.rank)
        WHEN b.cause = 'compute' AND b.sends THEN format('The others wait for what rank {} sends: prepare it a step ahead, on another stream, or let each rank make its own', b.rank)
        WHEN w.is_divided THEN 'Divide the work evenly: sizes of batches, lengths of sequences, capacity and balance of experts'
        WHEN w.is_share THEN format('Divide the work evenly, or leave out what only this rank has to do: the others run it {}', CASE WHEN d.others_count = 1 THEN 'once' ELSE tw_digits(d.others_count) || ' times' END)
        WHEN b.cause = 'compute' AND y.type IS NOT NULL THEN format('Look for what makes the numbers of rank {} another type: a batch, a part of the model, a cast', b.rank)
        WHEN b.cause = 'compute' AND d.kind = 'range' AND contains(d.name, 'SingleProcessDataLoaderIter')
            THEN format('Rank {} makes its batches in its steps: give its loader workers (num_workers), which do so ahead of them', b.rank)
        WHEN b.cause = 'compute' AND d.kind IN ('range', 'operator') AND d.others_ns = 0
            THEN format('Most ranks do not do this: on rank {} leave it out, do it less often, or let all share it', b.rank)
        WHEN w.is_more AND d.kind IN ('operator', 'range')
            THEN 'Its calls are more, and longer: leave out or share what only this rank does; else look for other load on its cores'
        WHEN w.is_more_there THEN format('See what rank {} does more {}: evaluation, logging, longer batches; leave it out, or let all share it', b.rank, d.which)
        WHEN w.records_more THEN format('Record with the same settings on every rank first: what rank {} records beyond others takes time of its host', b.rank)
        WHEN b.cause = 'compute' AND s.has_gpu THEN 'Compare its clock rates, power and temperature with the others''; else its share of the work'
        -- FSDP has hooks of its own, on all ranks
        WHEN b.cause = 'compute' AND d.kind = 'operator' AND d.name IN (SELECT name FROM tw_range_names WHERE autograd IS NOT NULL) AND NOT EXISTS (FROM tw_range_names WHERE sharding IS NOT NULL)
            THEN format('Look for gradient hooks in Python on rank {} (register_hook): the time is in none of its operators. Else for other load on its CPU cores', b.rank)
        WHEN b.cause = 'compute' THEN 'Look for other load on its CPU cores, such as other ranks; else its share of the work'
        WHEN w.is_in = '<built-in function collect>' THEN 'Collect garbage on all ranks in the same steps, and less often: gc.disable() or gc.freeze(), then gc.collect() every so many steps'
        WHEN b.cause IN ('host_bound', 'unknown_idle') AND w.is_in IS NOT NULL THEN format('See what rank {} does in ''{}'': rank_difference -p rank={}, gaps', b.rank, tw_shortened(w.is_in), b.rank)
        WHEN b.cause_detail = 'allocator' THEN 'Leave memory for the cache on this rank: it allocates and frees in steps (memory, gaps); its share of the work may be larger'
        WHEN b.cause_detail = 'sync' THEN 'See which calls make it wait for its GPU: syncs'
        WHEN b.cause_detail = 'module_loading' THEN 'Warm up before recording: it loads code in steps'
        WHEN b.cause = 'host_bound' THEN 'See what it does in its longest gap. Look for garbage collection, checkpoints, logging, other load on its CPU cores'
        WHEN b.cause = 'data_loading' AND contains(d.name, 'MultiProcessingDataLoaderIter') THEN 'More loader workers and prefetching, on all ranks: while others wait for this one, their workers go on. Check its storage and the size of its samples'
        WHEN b.cause = 'data_loading' THEN 'More loader workers and prefetching on this rank; check its storage and the size of its samples'
        WHEN b.cause = 'copies' THEN 'Copy from pinned memory, non-blocking'
        WHEN b.cause = 'device_delay' THEN 'Look for another process on its GPU (nvidia-smi), or work that waits for events: see gaps'
        WHEN EXISTS (FROM host_ops WHERE kind IN ('op', 'runtime', 'nvtx')) THEN 'See what it does before those collectives: stragglers -p per=step, gaps; '
            || CASE WHEN b.known_instances <= 2 THEN 'record a longer window'
                WHEN EXISTS (FROM host_ops WHERE kind = 'op') AND NOT EXISTS (FROM host_ops WHERE kind = 'python') THEN 'record with_stack=True, or mark its parts (record_function)'
                ELSE 'mark its parts (record_function, NVTX)' END
        ELSE 'Record CPU activity and a longer window'
    END AS advice
FROM {{ ref('blame') }} AS b
LEFT JOIN tw_late_causes() AS c USING (cause)
LEFT JOIN (FROM {{ ref('late_steps') }} WHERE is_most) AS m ON m.rank = b.rank
LEFT JOIN (
    FROM (
        SELECT rank, 'split sizes of all_to_all' AS what, times_mean, NULL AS steps FROM {{ ref('split_sizes') }}
        UNION ALL SELECT rank, 'input sizes of ' || tw_shortened(name), times_mean, steps FROM {{ ref('input_shares') }}
    )
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY times_mean DESC, what) = 1
) AS x ON x.rank = b.rank
LEFT JOIN {{ ref('input_types') }} AS y ON y.rank = b.rank
LEFT JOIN (
    SELECT v.*
    FROM {{ ref('differences') }} AS v JOIN {{ ref('blame') }} AS b ON b.rank = v.rank
    -- that it idles says more than nothing: when; what it does more often says why, what only takes longer says where
    -- of what idles no range says where but the one it idles in
    WHERE 3 * v.excess_ns >= b.cost_ns
        AND CASE WHEN b.cause = 'unknown_idle' THEN v.kind = 'idle' AND v.name = 'unknown' ELSE v.kind <> 'idle' OR (b.cause = 'host_bound' AND v.name = b.cause_detail) END
    QUALIFY row_number() OVER (PARTITION BY v.rank ORDER BY v.kind = 'idle', v.count_per_step <= v.others_count, v.excess_ns DESC, v.kind, v.name) = 1
) AS d ON d.rank = b.rank
LEFT JOIN compiled AS k ON k.rank = b.rank
CROSS JOIN {{ ref('mean_step') }} AS s
CROSS JOIN LATERAL (
    SELECT
        coalesce(b.cause = 'compute' AND 2 * k.more_ns >= b.cost_ns, FALSE) AS compiles,
        coalesce(b.cause = 'compute' AND b.rank IN (FROM eager), FALSE) AS is_eager,
        coalesce(b.cause = 'compute' AND NOT b.sends AND x.times_mean >= 1.1, FALSE) AS is_divided,
        format('rank={} kind=compute like=median', b.rank) AS as_others,
        tw_many(b.waiters, 'rank') || CASE WHEN b.waiters = 1 THEN ' waits' ELSE ' wait' END AS waits,
        coalesce(b.cause = 'compute' AND NOT b.sends AND d.kind <> 'idle' AND d.is_always_more
            AND d.others_count > 0 AND d.count_per_step >= 1.1 * d.others_count, FALSE) AS is_more,
        coalesce(b.cause = 'compute' AND d.kind <> 'idle' AND 2 * len(d.steps) <= s.steps AND d.count_per_step >= 1.1 * d.others_count, FALSE) AS is_more_there,
        -- stacks, shapes and memory take time of the host that records them
        CASE WHEN d.kind = 'range' THEN d.name ELSE d.host_op END AS is_in,
        (b.cause IN ('host_bound', 'unknown_idle') OR b.cause = 'compute' AND NOT s.has_gpu) AND EXISTS (FROM unlike)
            AND b.rank NOT IN (FROM unlike) AS records_more,
        -- what all do, and this rank more often in every step, is work that could be divided; not what it has to send them, nor a call
        -- that is longer than those of the others
        is_more AND 2 * (d.count_per_step - d.others_count) * d.others_ns >= d.others_count * (d.time_ns - d.others_ns) AS is_share
) AS w
WHERE b.is_straggler
