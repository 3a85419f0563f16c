-- rule: graph_capture | graphs that are captured
-- topic: idling and copies
-- finds: The host was capturing a CUDA or HIP graph, between the calls that begin and end it: what it launches then becomes part of the graph and does not run. A capture in few steps is one_off_stall.
-- try: Capture before measuring; keep graphs and replay them.
-- proof: idle_causes
-- shows: gaps graph_capture
SELECT
    tw_subject(i.who, 'captures a graph', 'capture graphs') AS title,
    i.ranks,
    i.cost_ns,
    i.opening || ' while a graph is captured: what is launched then does not run' || i.details AS evidence,
    CASE WHEN s.has_steps AND s.steps > 2
        THEN 'Keep graphs and replay them: find what makes new ones, such as changing shapes'
        ELSE 'Record after the capture: graphs are captured once, then replayed'
    END AS advice
FROM {{ ref('idling') }} AS i CROSS JOIN {{ ref('mean_step') }} AS s
WHERE i.cause = 'graph_capture' AND NOT i.is_blamed
