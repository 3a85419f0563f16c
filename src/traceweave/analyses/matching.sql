-- analysis: matching | how many collective calls found their partners on the other ranks, and where the clocks resolve which rank came last
-- answers: Were the collectives of different ranks found to belong together, on every rank of their group, and do the clocks resolve who came last?
-- topic: communication
-- grain: one row per operation and process group, or one for the run
-- needs: collectives
-- param: per VARCHAR = 'group' | what one row covers
-- choice: per 'group' | one operation of a process group
-- choice: per 'run' | all of them; op and group_id are NULL
-- column: op VARCHAR | which operation; 'send_recv' for sends and recvs that found each other
-- column: group_id INTEGER | process group; NULL if it could not be assigned to one
-- column: calls BIGINT | calls, counted once per rank
-- column: unmatched BIGINT | those without a partner, which are in none of the following
-- column: instances BIGINT | collectives that the others make up
-- column: shared BIGINT | those seen on two ranks or more
-- column: known_instances BIGINT | of these, those in which the clocks resolve which rank came last
-- column: complete BIGINT | of all, those seen on every rank of their group
-- column: incomplete BIGINT | those that lack a rank, so that transfer may be waiting for it
-- column: unsized BIGINT | those of a group whose size no trace says
-- column: synchronizing BIGINT | of the shared ones, those that cannot end anywhere before the last rank has begun
-- column: violations BIGINT | those that do so nevertheless on the common clock: impossible, so a clock is wrong
-- column: violation_max_ns BIGINT | by how much at most; NULL without violations
-- column: buffered BIGINT | of the shared ones, messages whose send was over before its receive began (is_buffered of collective_instances): no rank waited, so who came last is no matter
-- main: op, group_id, calls, unmatched, instances, complete, incomplete, violations, violation_max_ns
-- order: calls DESC, op, group_id NULLS LAST
-- caveat: a call that was recorded on one rank alone still counts as a collective: its partners were not recorded.
-- caveat: clock_quality says which rank's clock is wrong, and the resolution of the clocks.
WITH instances AS MATERIALIZED (
    SELECT
        collective_id,
        CASE WHEN {{ param('per') }} = 'group' THEN op END AS op,
        CASE WHEN {{ param('per') }} = 'group' THEN group_id END AS group_id,
        ranks_seen > 1 AS is_shared,
        last_is_known,
        is_buffered,
        complete,
        ranks_seen > 1 AND tw_synchronizes(op) AS synchronizes,
        last_start_ns - first_end_ns AS too_early_ns
    FROM collective_instances
),
calls AS (
    SELECT
        CASE WHEN {{ param('per') }} = 'group' THEN coalesce(i.op, k.op) END AS op,
        CASE WHEN {{ param('per') }} = 'group' THEN coalesce(i.group_id, k.group_id) END AS group_id,
        count(*) AS calls,
        count(*) FILTER (WHERE i.collective_id IS NULL) AS unmatched
    FROM collectives AS k LEFT JOIN instances AS i USING (collective_id)
    GROUP BY ALL
),
counted AS (
    SELECT
        op,
        group_id,
        count(*) AS instances,
        count(*) FILTER (WHERE is_shared) AS shared,
        count(*) FILTER (WHERE last_is_known) AS known_instances,
        count(*) FILTER (WHERE complete) AS complete,
        count(*) FILTER (WHERE NOT complete) AS incomplete,
        count(*) FILTER (WHERE complete IS NULL) AS unsized,
        count(*) FILTER (WHERE synchronizes) AS synchronizing,
        count(*) FILTER (WHERE synchronizes AND too_early_ns > 0) AS violations,
        max(too_early_ns) FILTER (WHERE synchronizes AND too_early_ns > 0) AS violation_max_ns,
        count(*) FILTER (WHERE is_buffered) AS buffered
    FROM instances
    GROUP BY op, group_id
)
SELECT
    k.op,
    k.group_id,
    k.calls,
    k.unmatched,
    coalesce(c.instances, 0) AS instances,
    coalesce(c.shared, 0) AS shared,
    coalesce(c.known_instances, 0) AS known_instances,
    coalesce(c.complete, 0) AS complete,
    coalesce(c.incomplete, 0) AS incomplete,
    coalesce(c.unsized, 0) AS unsized,
    coalesce(c.synchronizing, 0) AS synchronizing,
    coalesce(c.violations, 0) AS violations,
    c.violation_max_ns,
    coalesce(c.buffered, 0) AS buffered
FROM calls AS k LEFT JOIN counted AS c ON c.op IS NOT DISTINCT FROM k.op AND c.group_id IS NOT DISTINCT FROM k.group_id
ORDER BY k.calls DESC, k.op, k.group_id NULLS LAST
