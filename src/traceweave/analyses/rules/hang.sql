-- rule: hang | a job that stands still
-- topic: ranks and waiting
-- needs: ref('hangs')
-- finds: Flight recorder dumps show operations under way that ranks do not come to, come to with another one, or do not finish, or ranks that wait for each other: these ranks, what they hold up, and what each did last. Where none is to blame, the operation that all ranks came to, or whose members no dump lists. It comes first, whatever costs time. Of a job that also left traces it is a warning: a dump of a job that goes on shows operations that would have finished.
-- try: See what these ranks do (py-spy dump, their logs, dmesg for errors of the GPU).
-- proof: hangs
WITH rows AS MATERIALIZED (
    SELECT *, role <> 'waiting' AS is_culprit FROM {{ ref('hangs') }}
),
told AS (
    SELECT
        role, group_id, op, seq, last_op, waits_for, note, list(rank ORDER BY rank) AS ranks
    FROM rows
    WHERE is_culprit OR NOT EXISTS (FROM rows WHERE is_culprit)
    GROUP BY ALL
),
found AS (
    SELECT
        CASE WHEN role <> 'waiting' THEN list_sort(flatten(list(ranks))) END AS ranks,
        CASE WHEN role <> 'deadlocked' THEN any_value(group_id) END AS group_id,
        role,
        any_value(op) AS op,
        string_agg(note || coalesce('; it issued last: ' || last_op, '; its dump has no operation'), '. ' ORDER BY ranks) AS note,
        count(*) AS notes
    -- of those that wait, first one that waits for no other rank: its operation is the one that does not end
    FROM (FROM told QUALIFY role <> 'waiting' OR row_number() OVER (ORDER BY waits_for IS NOT NULL, ranks) = 1)
    -- each rank of a circle is in another operation, and all of them wait for the same ranks: themselves
    GROUP BY role, CASE WHEN role = 'deadlocked' THEN waits_for END, CASE WHEN role <> 'deadlocked' THEN (group_id, op, seq) END
)
SELECT
    CASE f.role
        WHEN 'mismatched' THEN tw_subject(f.ranks, 'comes with another operation than', 'come with other operations than') || ' the rest'
        WHEN 'missing' THEN tw_subject(f.ranks, 'does not come to', 'do not come to') || coalesce(' ' || f.op, ' an operation')
        WHEN 'stuck' THEN tw_subject(f.ranks, 'does not finish', 'do not finish') || coalesce(' ' || f.op, ' an operation')
        WHEN 'deadlocked' THEN tw_subject(f.ranks, 'waits', 'wait') || ' for each other'
        ELSE format(CASE WHEN f.group_id IS NULL THEN 'Ranks are in {} of a group that no dump lists' ELSE 'All ranks came to {}, which does not end' END, coalesce(f.op, 'an operation'))
    END AS title,
    f.ranks,
    f.group_id,
    CASE WHEN EXISTS (FROM sources WHERE format IN ('kineto', 'nsys')) THEN 'warning' ELSE 'critical' END AS severity,
    'The job stands still: ' || array_to_string(list_transform(string_split(f.note, '; '), lambda part: upper(part[1]) || part[2:]), '. ') AS evidence,
    CASE f.role
        WHEN 'mismatched' THEN 'Make all ranks of the group call the same operations in the same order: look for branches on the rank, uneven numbers of batches'
        WHEN 'missing' THEN 'See what these ranks do instead (py-spy dump, their logs): an exception, a lock, a loader, code that others do not run'
        WHEN 'stuck' THEN 'Look at these ranks'' GPUs and links (dmesg, nvidia-smi), then at their processes (py-spy dump)'
        WHEN 'deadlocked' THEN 'Make these ranks call in one order: operations of several groups, and each send beside its receive'
        WHEN 'waiting' THEN CASE WHEN f.group_id IS NULL THEN 'Compare in hangs what each rank is in, and look for the ranks that are in nothing (py-spy dump, their logs)'
            ELSE 'All ranks came: look at the network and the GPUs (NCCL_DEBUG=INFO, dmesg)' END
    END AS advice
FROM found AS f
