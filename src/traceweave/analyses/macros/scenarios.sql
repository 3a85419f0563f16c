-- What a rule says would fix it.

-- macro: tw_of_ranks(ranks) | the beginning of a scenario of what-if: only these ranks; empty for NULL, which stands for all
CREATE TEMP MACRO IF NOT EXISTS tw_of_ranks(ranks) AS
    coalesce('rank=' || array_to_string(ranks, ',') || ' ', '');

-- macro: tw_like_others(ranks) | the change of a scenario by which a rank is as fast as the others; of two ranks the median would be the mean
CREATE TEMP MACRO IF NOT EXISTS tw_like_others(ranks) AS
    CASE WHEN ranks = 2 THEN 'like=fastest' ELSE 'like=median' END;
