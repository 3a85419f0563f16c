-- shared: pipeline_traffic | what a rank sends and receives in a step, and how long it waits for the other side
-- grain: one row per rank and step with messages that may be those of a pipeline
-- needs: ref('pipeline_messages')
-- param: release_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which they were issued
-- column: last_message_ns BIGINT | start of the last one, common clock
-- column: first_received_ns BIGINT | end of the first one that it received
-- column: receives BIGINT | this and the following as in pipeline
-- column: sends BIGINT | messages sent
-- column: receive_wait_ns BIGINT | how long receives waited for their sends
-- column: send_wait_ns BIGINT | how long sends waited for their receives
-- column: receive_blocked_ns BIGINT | how long compute stood still for receives
-- column: is_matched BOOLEAN | both sides of all of them were seen
-- column: is_blind BOOLEAN | of none the other side is known
WITH messages AS (
    FROM {{ ref('pipeline_messages') }}
)
SELECT
    m.rank,
    m.step,
    max(m.start_ns) AS last_message_ns,
    min(m.end_ns) FILTER (WHERE m.op = 'recv') AS first_received_ns,
    count(*) FILTER (WHERE m.op = 'recv') AS receives,
    count(*) FILTER (WHERE m.op = 'send') AS sends,
    CAST(sum(greatest(w.wait_ns, 0)) FILTER (WHERE m.op = 'recv') AS BIGINT) AS receive_wait_ns,
    CAST(sum(greatest(w.wait_ns, 0)) FILTER (WHERE m.op = 'send') AS BIGINT) AS send_wait_ns,
    CAST(sum(e.blocked_ns) FILTER (WHERE m.op = 'recv') AS BIGINT) AS receive_blocked_ns,
    count(w.wait_ns) = count(*) AS is_matched,
    count(m.peer) = 0 AS is_blind
FROM messages AS m
LEFT JOIN tw_collective_exposure('messages', {{ param('release_ns') }}) AS e USING (call_id)
LEFT JOIN tw_shared_waits() AS w ON w.collective_id = m.collective_id AND w.rank = m.rank
GROUP BY m.rank, m.step
