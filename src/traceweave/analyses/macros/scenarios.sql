-- What a rule says would fix it.

-- macro: tw_of_ranks(ranks) | the beginning of a scenario of what-if: only these ranks; empty for NULL, which stands for all
CREATE TEMP MACRO IF NOT EXISTS tw_of_ranks(ranks) AS
    coalesce('rank=' || array_to_string(ranks, ',') || ' ', '');
