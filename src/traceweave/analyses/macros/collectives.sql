-- What is said of collectives in the same way wherever they appear.

-- macro: tw_missing_ranks(incomplete, operations, ranks_seen, ranks, meaning) | a note where incomplete of some operations lack members of their group, as '12 of 16 ranks not seen: ' || meaning if all do; NULL if none does
CREATE TEMP MACRO IF NOT EXISTS tw_missing_ranks(incomplete, operations, ranks_seen, ranks, meaning) AS
    CASE
        WHEN incomplete = operations AND incomplete > 0 THEN format('{} of {} ranks not seen: {}', ranks - ranks_seen, ranks, meaning)
        WHEN incomplete > 0 THEN format('{} of {} lack ranks: waiting for them counts as transfer', incomplete, operations)
    END;
