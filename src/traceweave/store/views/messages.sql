-- relation: message_rings | one row per process group whose messages go round a ring, as in ring attention: each member sends to one and receives from another, or all send before they have received anything in most of several steps, where in a pipeline all stages but the first wait for the one before
-- column: group_id INTEGER | process group
CREATE VIEW message_rings AS
WITH members AS (
    SELECT
        k.group_id,
        k.rank,
        list(DISTINCT coalesce(k.peer, o.rank)) FILTER (k.op = 'send') AS receivers,
        list(DISTINCT coalesce(k.peer, o.rank)) FILTER (k.op = 'recv') AS senders
    FROM collectives AS k
    LEFT JOIN collectives AS o
        ON o.collective_id = k.collective_id AND o.rank <> k.rank AND o.op IN ('send', 'recv') AND o.op <> k.op
    WHERE k.op IN ('send', 'recv') AND k.group_id IS NOT NULL
    GROUP BY k.group_id, k.rank
),
firsts AS (
    SELECT group_id, rank, step, coalesce(min(start_ns) FILTER (op = 'send') < min(end_ns) FILTER (op = 'recv'), FALSE) AS sends_first
    FROM collectives
    WHERE op IN ('send', 'recv') AND step IS NOT NULL
    GROUP BY group_id, rank, step
),
givers AS (
    SELECT group_id, rank FROM firsts GROUP BY group_id, rank HAVING count(*) > 1 AND 2 * count(*) FILTER (sends_first) > count(*)
)
SELECT m.group_id
FROM members AS m
LEFT JOIN givers AS v ON v.group_id = m.group_id AND v.rank = m.rank
LEFT JOIN groups AS g ON g.group_id = m.group_id
GROUP BY m.group_id
HAVING bool_and(coalesce(len(m.receivers) = 1 AND len(m.senders) = 1 AND m.receivers <> m.senders, FALSE))
    -- and all of them are seen to
    OR count(v.rank) = any_value(g.size);
