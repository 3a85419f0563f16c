-- Why a rank comes late.

-- rows: tw_late_causes() | what a rank that comes last did longer than the others on its way: cause (as in stragglers), place (of the cause in lists), words (a clause that says it)
SELECT causes.*
FROM (VALUES
    ('compute', 1, 'it computes longer'),
    ('host_bound', 2, 'its host is late'),
    ('data_loading', 3, 'it waits for data'),
    ('copies', 4, 'it copies longer'),
    ('other_group', 5, 'it waits in another group or for messages'),
    ('device_delay', 6, 'its GPU starts launched work late'),
    ('unknown_idle', 7, 'it idles longer, no cause recorded'),
    ('late_end', 8, 'its previous collective ends later')
) AS causes(cause, place, words);

-- macro: tw_who_does(who, words) | words of tw_late_causes with their subject: 'Rank 2 waits for data', 'Rank 2''s host is late'
    who || CASE WHEN starts_with(words, 'its ') THEN '''s ' || words[5:] ELSE words[3:] END;

-- macro: tw_as_others(who, cause) | a scenario: what makes a rank late takes it as long as the others at the median; `who` names the rank for what-if
    who || CASE cause
        WHEN 'compute' THEN ' kind=compute like=median'
        WHEN 'host_bound' THEN ' kind=launch like=median'
        WHEN 'data_loading' THEN ' kind=data_loading like=median'
        WHEN 'copies' THEN ' kind=copy like=median'
        WHEN 'device_delay' THEN ' kind=device_delay times=0'
        ELSE ' like=median'
    END;

-- macro: tw_see_what(rank, steps, since) | advice to see what makes a rank late in steps: what it does since it met the others, in the steps before if nothing else is known
    format('See what rank {} does {} (stragglers -p per=step, gaps): evaluation, checkpoints, logging, garbage collection', rank,
        CASE
            WHEN since < steps[1] - 1 THEN format('from step {} to {}', since, steps[1])
            WHEN len(steps) > 1 THEN format('in {} and the ones before', tw_steps(steps))
            ELSE format('in step {} and the one before', steps[1])
        END);

-- macro: tw_see_end(has_gpu) | advice where the collective before ends later on late ranks: what they do between the two is not why
    'The collective before ends later on the late rank: see exposed_comm. Look for '
        || CASE WHEN has_gpu THEN 'slow links, and other load on its GPU' ELSE 'other load on the CPU cores, whose threads transfer' END;

-- macro: tw_compile_before(rank) | advice where a rank compiles in steps while others wait for it
    format('Let all ranks compile before the loop, and pad inputs to few shapes; TORCH_LOGS=recompiles on rank {} shows why it did', rank);

-- macro: tw_unhashed(name) | a name without hashes, as torch.compile gives its graphs, others in each build and on each rank
    regexp_replace(name, '[0-9a-z]{32,}', '…', 'g');

-- macro: tw_unnumbered(name) | a range without what tells one of its kind from another: numbers, as of a layer, a step or the rank itself, and hashes
    regexp_replace(regexp_replace(tw_unhashed(name), '^(.+?)([ _#:/.]*[0-9]+)+$', '\1'), '[0-9]+', '…', 'g');

-- macro: tw_range_kind(name) | such a name, but for the range of a step, which says nothing of what is done: NULL
    CASE WHEN NOT regexp_matches(name, '(?i)^(profilerstep|step|train_step|iteration|iter|epoch|batch)[ _#:]*[0-9]+$') THEN tw_unnumbered(name) END;

-- macro: tw_difference(rank, kind, name, count, others_count, time_ns, others_ns, which, host_op, unit) | what a rank does more, longer or alone, in a sentence: 'Rank 2 runs aten::matmul 5 times per step, 96 ms, from step 5 on; most others do not'
    CASE
        WHEN kind = 'idle' THEN format('Rank {} idles {}', rank, tw_time(time_ns))
        -- how often it is in a range says why, where others are less often
        WHEN kind = 'range' AND (others_count = 0 OR round(count) <= round(others_count)) THEN format('Rank {} is in ''{}'' for {}', rank, tw_shortened(name), tw_time(time_ns))
        ELSE format('Rank {} runs {} {}, {}', rank, CASE WHEN kind = 'range' THEN '''' || tw_shortened(name) || '''' ELSE tw_shortened(name) END,
            CASE WHEN round(count) <= 1 THEN 'once' ELSE format('{} times', CAST(round(count) AS BIGINT)) END, tw_time(time_ns))
    END
    || CASE WHEN which = 'in every step' OR which IS NULL OR starts_with(which, 'in step ') OR starts_with(which, 'in the one') THEN '' ELSE ' per ' || unit END
    || coalesce(' ' || which, ' per ' || unit)
    || coalesce(format(', most in ''{}''', tw_shortened(host_op)), '')
    || CASE WHEN kind = 'idle' AND name <> 'unknown' THEN ': ' || (SELECT c.words FROM tw_gap_causes() AS c WHERE c.cause = name) ELSE '' END
    || CASE
        WHEN others_ns = 0 THEN '; most others do not'
        WHEN kind <> 'idle' AND round(count) > round(others_count) AND round(others_count) > 0
            THEN format('; the others {}, {} at the median', CASE WHEN round(others_count) = 1 THEN 'once' ELSE format('{} times', CAST(round(others_count) AS BIGINT)) END, tw_time(others_ns))
        ELSE format('; the others {} at the median', tw_time(others_ns))
    END;
