-- relation: message_rings | one row per process group whose messages are not those of a pipeline, where all stages but the first wait for one before. They go round a ring, as in ring attention: each member sends to one and receives from another, or all send before they have received anything in most of several steps. Or they go between a rank and others that know no other, as with a parameter server: in most of several steps it receives from two of them before it sends, or sends to two before it receives
-- column: group_id INTEGER | process group
CREATE VIEW message_rings AS
WITH messages AS (
    SELECT k.group_id, k.rank, k.step, k.op, k.start_ns, k.end_ns, coalesce(k.peer, o.rank) AS peer
    FROM collectives AS k
    LEFT JOIN collectives AS o
        ON o.collective_id = k.collective_id AND o.rank <> k.rank AND o.op IN ('send', 'recv') AND o.op <> k.op
    WHERE k.op IN ('send', 'recv') AND k.group_id IS NOT NULL
),
members AS (
    SELECT
        group_id,
        rank,
        list(DISTINCT peer) FILTER (op = 'send') AS receivers,
        list(DISTINCT peer) FILTER (op = 'recv') AS senders,
        list(DISTINCT peer) FILTER (peer IS NOT NULL) AS peers
    FROM messages
    GROUP BY group_id, rank
),
firsts AS (
    SELECT
        group_id,
        rank,
        coalesce(any_value(sends_ns) < any_value(received_ns), FALSE) AS sends_first,
        count(DISTINCT peer) FILTER (op = 'recv' AND coalesce(end_ns <= sends_ns, TRUE)) > 1
            OR count(DISTINCT peer) FILTER (op = 'send' AND coalesce(start_ns <= received_ns, TRUE)) > 1 AS is_hub
    FROM (
        SELECT *, min(start_ns) FILTER (op = 'send') OVER turn AS sends_ns, min(end_ns) FILTER (op = 'recv') OVER turn AS received_ns
        FROM messages
        WHERE step IS NOT NULL
        WINDOW turn AS (PARTITION BY group_id, rank, step)
    )
    GROUP BY group_id, rank, step
),
habits AS (
    SELECT
        group_id, rank,
        2 * count(*) FILTER (sends_first) > count(*) AS gives,
        2 * count(*) FILTER (is_hub) > count(*) AS is_hub
    FROM firsts
    GROUP BY group_id, rank
    HAVING count(*) > 1
)
SELECT m.group_id
FROM members AS m
LEFT JOIN habits AS h ON h.group_id = m.group_id AND h.rank = m.rank
LEFT JOIN groups AS g ON g.group_id = m.group_id
GROUP BY m.group_id
HAVING bool_and(coalesce(len(m.receivers) = 1 AND len(m.senders) = 1 AND m.receivers <> m.senders, FALSE))
    -- and all of them are seen to
    OR count(*) FILTER (h.gives) = any_value(g.size)
    OR bool_or(h.is_hub) AND bool_and(len(m.peers) = 1 OR coalesce(h.is_hub, FALSE))
        AND NOT list_has_any(list(m.rank) FILTER (len(m.peers) > 1), flatten(list(m.peers) FILTER (len(m.peers) > 1)));
