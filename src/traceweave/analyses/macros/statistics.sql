-- Statistics whose definition must be the same wherever they appear.

-- macro: tw_percentile(value, fraction) | nearest-rank percentile of a group: the smallest value that at least this fraction of the values does not exceed; always one of the values, NULLs left out, NULL if there are none
    quantile_disc(value, fraction);

-- macro: tw_log_ways(of_all, chosen) | logarithm of in how many ways so many can be chosen of all
    lgamma(of_all + 1) - lgamma(chosen + 1) - lgamma(of_all - chosen + 1);

-- macro: tw_ratio(part, whole) | part / whole as DOUBLE; NULL if whole is 0 or NULL
    part / nullif(whole, 0);

-- macro: tw_bytes_from(bytes) | lower end of the power-of-two size bucket: the largest power of two that is not above bytes; 0 for 0, NULL if unknown
    CASE WHEN bytes > 0 THEN 1::BIGINT << (length(bin(bytes)) - 1) ELSE bytes END;

-- macro: tw_bytes_to(bytes) | upper end of the power-of-two size bucket, not part of it
    CASE WHEN bytes > 0 THEN 1::BIGINT << length(bin(bytes)) ELSE bytes + 1 END;

-- macro: tw_median_of_others(present, own, among) | the lower median of what others have, of `among` in all: `present` are the values of those that have any, ascending, with `own` among them; the rest have 0
    -- places count from 1, zeros first; without the own value the places after it move up
    coalesce(present[
        CASE WHEN (among - 2) // 2 + 1 < among - len(present) + list_position(present, own) THEN (among - 2) // 2 + 1 ELSE (among - 2) // 2 + 2 END
        - (among - len(present))
    ] * CAST((among - 2) // 2 + 2 > among - len(present) AS INTEGER), 0);

-- macro: tw_which_steps(chosen, every) | some of all steps in words, both ascending: 'in every step', 'in step 3', 'in steps 4 and 9', 'from step 5 on', 'in every 4th step'; NULL without steps
    CASE
        WHEN every[1] IS NULL THEN NULL
        WHEN len(every) = 1 THEN 'in the one step'
        WHEN len(chosen) = len(every) THEN 'in every step'
        WHEN len(chosen) = 1 THEN 'in step ' || chosen[1]
        WHEN chosen = every[-len(chosen):] THEN 'from step ' || chosen[1] || ' on'
        WHEN chosen = every[:len(chosen)] THEN 'until step ' || chosen[-1]
        WHEN len(chosen) = 2 THEN format('in steps {} and {}', chosen[1], chosen[2])
        WHEN chosen[-1] - chosen[1] = len(chosen) - 1 THEN format('in steps {} to {}', chosen[1], chosen[-1])
        -- from the first steps to the last ones: as many before and after as between
        WHEN len(list_distinct(list_transform(range(2, len(chosen) + 1), lambda i: chosen[i] - chosen[i - 1]))) = 1
            AND 2 * chosen[1] - chosen[2] < every[1] AND 2 * chosen[-1] - chosen[-2] > every[-1]
            THEN format('in every {}{} step', chosen[2] - chosen[1], CASE chosen[2] - chosen[1] WHEN 2 THEN 'nd' WHEN 3 THEN 'rd' ELSE 'th' END)
        -- one step in ten since then may be as quick as before: steps vary
        WHEN chosen[1] > every[1] AND len(chosen) >= 0.9 * (len(every) - list_position(every, chosen[1]) + 1)
            THEN format('in {} of {} steps from step {} on', len(chosen), len(every) - list_position(every, chosen[1]) + 1, chosen[1])
        ELSE format('in {} of {} steps', len(chosen), len(every))
    END;
