-- analysis: hangs | which ranks keep a stuck job from going on, from the flight recorder's dumps
-- answers: Which operation is stuck, which ranks did not come to it or came with another one, and who only waits for them?
-- topic: communication
-- grain: one row per rank that is missing, that issued something else, that is stuck, or that waits; none if nothing was under way
-- needs: flight_calls
-- column: rank INTEGER | global rank
-- column: role VARCHAR | 'mismatched' (came with another operation, size or type), 'missing' (others wait for it, and it waits for nobody), 'stuck' (other members have finished its oldest operation, it has not), 'deadlocked' (waits for ranks that wait for it, and for no other) or 'waiting'
-- column: group_id INTEGER | process group of the operation that is stuck
-- column: op VARCHAR | the operation: that which a missing rank did not come to, else the rank's own oldest one under way
-- column: seq BIGINT | its number in the group; of a send or recv the number that its rank counts
-- column: last_op VARCHAR | what the rank issued last; NULL if its dump has no operation
-- column: waits_for INTEGER[] | the ranks that it waits for, directly or through others: itself among them if they wait for it in turn; NULL if none
-- column: note VARCHAR | one sentence: what happened, or whom it waits for
-- order: role_number, waiters DESC, rank, group_id, seq
-- caveat: culprits come first, and of them those that keep most ranks waiting, directly or through others.
-- caveat: needs the flight recorder's dumps of all ranks (TORCH_FR_DUMP_TEMP_FILE), ingested alone or beside traces.
-- caveat: a dump shows what was under way when it was made: of a job that was not stuck, operations that would have finished.
-- caveat: a rank without a dump counts as missing where others wait in a group of which it is a member.
WITH RECURSIVE
calls AS MATERIALIZED (
    SELECT *, CASE WHEN is_p2p THEN p2p_seq ELSE seq END AS number, coalesce(group_desc, group_name) AS label,
        list_sum(list_transform(input_sizes, lambda shape: coalesce(list_product(shape), 1))) AS elements
    FROM flight_calls
),
dumped AS (SELECT rank FROM flight_groups UNION SELECT rank FROM flight_calls),
-- in groups with sends and recvs the last numbers of flight_groups may be theirs
mixed AS (SELECT DISTINCT group_name, group_ranks FROM calls WHERE is_p2p),
oldest AS MATERIALIZED (
    SELECT c.* FROM calls AS c WHERE pending QUALIFY row_number() OVER (PARTITION BY rank ORDER BY record_id) = 1
),
newest AS (
    SELECT rank, arg_max(format('{} {} of {}', op, number, label), record_id) AS last_op FROM calls GROUP BY rank
),
-- the first number of each group at which the ranks did not issue the same
issued AS (
    SELECT *,
        format('{} of {} {}', op, list_aggregate(input_dtypes, 'string_agg', ', '), tw_many(CAST(elements AS BIGINT), 'element')) AS what
    FROM (
        SELECT *,
            -- lists of tensors may be gathered and scattered in parts of different sizes
            CASE WHEN op IN ('all_reduce', 'broadcast', 'reduce') OR regexp_matches(name, 'all_gather_base|reduce_scatter_base')
                THEN hash(op, input_dtypes, elements) ELSE hash(op) END AS signature
        FROM calls
        WHERE NOT is_p2p AND seq IS NOT NULL AND group_ranks IS NOT NULL
        WINDOW of_number AS (PARTITION BY group_name, group_ranks, seq)
        -- operations of one coalesced call have one number
        QUALIFY count(*) OVER of_number = count(DISTINCT rank) OVER of_number
    )
),
kinds AS (
    SELECT group_name, group_ranks, seq, signature, count(*) AS ranks, any_value(what) AS what, bool_or(pending) AS pending
    FROM issued GROUP BY group_name, group_ranks, seq, signature
),
differing AS (
    SELECT group_name, group_ranks, seq, max(ranks) AS most, count(*) FILTER (WHERE ranks = most_of_all) AS with_most,
        arg_max(what, ranks) AS usual
    FROM (SELECT *, max(ranks) OVER (PARTITION BY group_name, group_ranks, seq) AS most_of_all FROM kinds)
    GROUP BY group_name, group_ranks, seq
    HAVING count(*) > 1 AND bool_or(pending)
    QUALIFY row_number() OVER (PARTITION BY group_name, group_ranks ORDER BY seq) = 1
),
mismatched AS (
    SELECT i.rank, i.group_id, i.op, i.seq, 'mismatched' AS role, d.most AS waiters,
        CASE WHEN d.with_most > 1 THEN format('issued {} as number {} of {}, where other ranks issued something else', i.what, i.seq, i.label)
            ELSE format('issued {} as number {} of {}, where {} issued {}', i.what, i.seq, i.label,
                CASE WHEN d.most = 1 THEN 'another rank' ELSE format('{} ranks', d.most) END, d.usual) END AS note
    FROM issued AS i
    JOIN differing AS d USING (group_name, group_ranks, seq)
    JOIN kinds AS k USING (group_name, group_ranks, seq, signature)
    WHERE k.ranks < d.most OR d.with_most > 1
),
-- where the other ranks are with respect to the oldest operation of each
others AS (
    SELECT o.rank, unnest(o.group_ranks) AS other FROM oldest AS o WHERE NOT o.is_p2p
    UNION ALL
    SELECT rank, peer FROM oldest WHERE is_p2p AND peer IS NOT NULL
),
reached AS (
    SELECT group_name, group_ranks, rank, max(seq) AS last_seq FROM calls WHERE NOT is_p2p GROUP BY group_name, group_ranks, rank
),
own AS (
    SELECT group_name, group_ranks, rank, seq, bool_or(pending) AS pending FROM calls WHERE NOT is_p2p GROUP BY group_name, group_ranks, rank, seq
),
places AS MATERIALIZED (
    SELECT
        o.rank, t.other, o.group_id, o.label, o.op, o.number, o.is_p2p, o.created_ns,
        p.rank IS NOT NULL AS same_is_oldest,
        CASE
            WHEN d.rank IS NULL THEN 'no dump'
            WHEN o.is_p2p THEN CASE WHEN EXISTS (
                FROM calls AS a WHERE a.rank = t.other AND a.pending AND a.is_p2p AND a.peer = o.rank AND a.op <> o.op AND a.group_name = o.group_name
            ) THEN 'came' ELSE 'absent' END
            WHEN own.rank IS NOT NULL THEN CASE WHEN own.pending THEN 'came' ELSE 'finished' END
            WHEN m.group_name IS NULL AND s.last_completed >= o.number THEN 'finished'
            WHEN m.group_name IS NULL AND s.last_enqueued >= o.number THEN 'came'
            WHEN m.group_name IS NULL AND s.last_enqueued IS NOT NULL THEN 'absent'
            WHEN r.last_seq > o.number THEN 'finished'
            ELSE 'absent'
        END AS place
    FROM others AS t
    JOIN oldest AS o USING (rank)
    LEFT JOIN dumped AS d ON d.rank = t.other
    LEFT JOIN own ON NOT o.is_p2p AND own.rank = t.other AND own.group_name = o.group_name AND own.group_ranks = o.group_ranks AND own.seq = o.seq
    LEFT JOIN flight_groups AS s ON s.rank = t.other AND s.group_name = o.group_name AND s.group_ranks = o.group_ranks
    LEFT JOIN mixed AS m ON m.group_name = o.group_name AND m.group_ranks = o.group_ranks
    LEFT JOIN reached AS r ON r.rank = t.other AND r.group_name = o.group_name AND r.group_ranks = o.group_ranks
    LEFT JOIN oldest AS p ON p.rank = t.other AND p.group_name = o.group_name AND p.group_ranks = o.group_ranks
        AND CASE WHEN o.is_p2p THEN p.is_p2p AND p.peer = o.rank AND p.op <> o.op ELSE NOT p.is_p2p AND p.seq = o.seq END
    WHERE t.other <> o.rank
),
-- whom each rank waits for: those that did not come; else, if nobody has finished it, those that are held up by something older
waits AS MATERIALIZED (
    SELECT rank, other, place, group_id, label, op, number, is_p2p, created_ns
    FROM places
    WHERE place IN ('absent', 'no dump')
        OR (place = 'came' AND NOT same_is_oldest
            AND rank NOT IN (SELECT rank FROM places WHERE place IN ('absent', 'no dump', 'finished')))
),
stuck AS (
    SELECT rank, list(other ORDER BY other) AS finished_by
    FROM places
    WHERE place = 'finished' AND rank NOT IN (SELECT rank FROM waits)
    GROUP BY rank
),
culprits AS MATERIALIZED (
    SELECT other AS rank FROM waits WHERE other NOT IN (SELECT rank FROM waits) AND place IN ('absent', 'no dump')
    UNION SELECT rank FROM stuck
),
reaching AS (
    SELECT rank, other FROM waits
    UNION SELECT e.rank, w.other FROM reaching AS e JOIN waits AS w ON e.other = w.rank
),
origins AS (
    SELECT e.rank, list(e.other ORDER BY e.other) AS ranks FROM reaching AS e JOIN culprits AS c ON e.other = c.rank GROUP BY e.rank
),
held_up AS (SELECT other AS rank, count(DISTINCT rank) AS ranks FROM reaching GROUP BY other),
awaited AS (SELECT rank, list(other ORDER BY other) AS waits_for FROM reaching GROUP BY rank),
missed AS (
    SELECT * FROM waits WHERE place IN ('absent', 'no dump') QUALIFY row_number() OVER (PARTITION BY other ORDER BY is_p2p, created_ns, rank) = 1
),
named AS (
    SELECT rank, group_id, op, seq, role, waiters, note FROM mismatched
    UNION ALL
    SELECT
        c.rank, coalesce(m.group_id, o.group_id), coalesce(m.op, o.op), coalesce(m.number, o.number),
        CASE WHEN m.other IS NULL THEN 'stuck' ELSE 'missing' END, coalesce(h.ranks, 0),
        concat_ws('; ',
            CASE WHEN m.other IS NOT NULL THEN format('{} {}{} {} of {}, for which {} {}, directly or through others',
                CASE WHEN m.place = 'no dump' THEN 'left no dump and is not known to have come to' ELSE 'did not come to' END,
                CASE WHEN m.is_p2p THEN format('rank {}''s ', m.rank) ELSE '' END, m.op, m.number, m.label, tw_many(h.ranks, 'rank'), CASE WHEN h.ranks = 1 THEN 'waits' ELSE 'wait' END) END,
            CASE WHEN s.rank IS NOT NULL THEN format('has not finished {} {} of {}, which {} finished: its GPU or its process stands still',
                o.op, o.number, o.label, CASE WHEN len(s.finished_by) = 1 THEN format('rank {} has', s.finished_by[1]) ELSE format('{} ranks have', len(s.finished_by)) END)
            WHEN m.place <> 'absent' THEN NULL
            WHEN o.rank IS NULL THEN 'its dump shows nothing under way'
            ELSE format('is in {} {} of {}, {}', o.op, o.number, o.label,
                CASE WHEN o.group_ranks IS NULL THEN 'whose members no dump lists' ELSE 'to which all came' END) END)
    FROM culprits AS c
    LEFT JOIN missed AS m ON m.other = c.rank
    LEFT JOIN stuck AS s ON s.rank = c.rank
    LEFT JOIN oldest AS o ON o.rank = c.rank
    LEFT JOIN held_up AS h ON h.rank = c.rank
    WHERE c.rank NOT IN (SELECT rank FROM mismatched)
    UNION ALL
    SELECT
        o.rank, o.group_id, o.op, o.number, CASE WHEN g.ranks IS NULL AND list_contains(e.waits_for, o.rank) THEN 'deadlocked' ELSE 'waiting' END, coalesce(h.ranks, 0),
        CASE
            WHEN g.ranks IS NOT NULL THEN format('waits for {}', tw_ranks(g.ranks))
            WHEN w.ranks IS NOT NULL THEN format('waits for {}', tw_ranks(w.ranks))
                || CASE WHEN NOT list_contains(e.waits_for, o.rank) THEN '' WHEN len(w.ranks) = 1 THEN ', which waits for it in turn' ELSE ', which wait for it in turn' END
            ELSE format('is in {} {} of {}, {}', o.op, o.number, o.label, CASE
                WHEN o.group_ranks IS NULL THEN 'whose members no dump lists'
                WHEN d.seq IS NOT NULL THEN 'to which others came with something else'
                ELSE 'to which all came, as far as dumps tell: the operation itself does not finish' END)
        END
    FROM oldest AS o
    LEFT JOIN origins AS g USING (rank)
    LEFT JOIN held_up AS h USING (rank)
    LEFT JOIN awaited AS e USING (rank)
    LEFT JOIN differing AS d ON NOT o.is_p2p AND d.group_name = o.group_name AND d.group_ranks = o.group_ranks AND d.seq = o.seq
    LEFT JOIN (SELECT rank, list(DISTINCT other ORDER BY other) AS ranks FROM waits GROUP BY rank) AS w USING (rank)
    WHERE o.rank NOT IN (SELECT rank FROM culprits) AND o.rank NOT IN (SELECT rank FROM mismatched)
)
SELECT n.rank, n.role, n.group_id, n.op, n.seq, l.last_op, a.waits_for, format('Rank {} {}', n.rank, n.note) AS note
FROM (SELECT *, list_position(['mismatched', 'missing', 'stuck', 'deadlocked', 'waiting'], role) AS role_number FROM named) AS n
LEFT JOIN newest AS l USING (rank)
LEFT JOIN awaited AS a USING (rank)
ORDER BY n.role_number, n.waiters DESC, n.rank, n.group_id, n.seq
