-- Numbers in sentences: the same words wherever an analysis speaks.

-- macro: tw_time(ns) | a duration with three digits, as '1.23 ms'; NULL if it is NULL
CREATE TEMP MACRO IF NOT EXISTS tw_time(ns) AS
    CASE
        WHEN abs(ns) >= 999500000 THEN tw_digits(ns / 1e9) || ' s'
        WHEN abs(ns) >= 999500 THEN tw_digits(ns / 1e6) || ' ms'
        ELSE tw_digits(ns / 1e3) || ' us'
    END;

-- macro: tw_digits(value) | a number with three digits, as '1.23', '12.3' or '123'; NULL if it is NULL
CREATE TEMP MACRO IF NOT EXISTS tw_digits(value) AS
    CASE
        WHEN abs(value) < 9.995 THEN format('{:.2f}', value)
        WHEN abs(value) < 99.95 THEN format('{:.1f}', value)
        ELSE format('{:.0f}', value)
    END;

-- macro: tw_percent(share) | a share as '12.3%'; NULL if it is NULL
CREATE TEMP MACRO IF NOT EXISTS tw_percent(share) AS
    format('{:.1f}%', 100 * share);

-- macro: tw_size(bytes) | a size in decimal units, as '1.23 MB'; NULL if it is NULL
CREATE TEMP MACRO IF NOT EXISTS tw_size(bytes) AS
    CASE
        WHEN bytes >= 999500000 THEN tw_digits(bytes / 1e9) || ' GB'
        WHEN bytes >= 999500 THEN tw_digits(bytes / 1e6) || ' MB'
        WHEN bytes >= 1000 THEN tw_digits(bytes / 1e3) || ' kB'
        ELSE bytes || ' B'
    END;

-- macro: tw_many(count, noun) | a count with its noun, as '1 rank' or '8 ranks'
CREATE TEMP MACRO IF NOT EXISTS tw_many(count, noun) AS
    count || ' ' || noun || CASE WHEN count = 1 THEN '' ELSE 's' END;

-- macro: tw_about(mean, noun) | a mean number of things as a whole one with its noun, as '1 gap' or '29 gaps'; never none; NULL if it is NULL
CREATE TEMP MACRO IF NOT EXISTS tw_about(mean, noun) AS
    tw_many(CAST(CASE WHEN mean < 1 THEN 1 ELSE round(mean) END AS BIGINT), noun);

-- macro: tw_ranks(ranks) | a list of ranks in words, as 'rank 3' or 'ranks 0, 3'; more than eight are counted: '12 ranks'
CREATE TEMP MACRO IF NOT EXISTS tw_ranks(ranks) AS
    CASE
        WHEN len(ranks) = 1 THEN 'rank ' || ranks[1]
        WHEN len(ranks) > 8 THEN len(ranks) || ' ranks'
        ELSE 'ranks ' || array_to_string(list_sort(ranks), ', ')
    END;

-- macro: tw_shortened(name) | a name of at most 60 characters, cut where it is longer
CREATE TEMP MACRO IF NOT EXISTS tw_shortened(name) AS
    CASE WHEN length(name) > 60 THEN left(name, 59) || '…' ELSE name END;

-- macro: tw_steps(steps) | a list of steps in words, as 'step 3' or 'steps 0, 3'; more than eight are counted: '12 steps'
CREATE TEMP MACRO IF NOT EXISTS tw_steps(steps) AS
    CASE
        WHEN len(steps) = 1 THEN 'step ' || steps[1]
        WHEN len(steps) > 8 THEN len(steps) || ' steps'
        ELSE 'steps ' || array_to_string(list_sort(steps), ', ')
    END;

-- macro: tw_few(count, noun) | a warning where there are no more than two of what a sentence rests on, as ' (only 2 collectives)'; else nothing
CREATE TEMP MACRO IF NOT EXISTS tw_few(count, noun) AS
    CASE WHEN count <= 2 THEN ' (only ' || tw_many(count, noun) || ')' ELSE '' END;
