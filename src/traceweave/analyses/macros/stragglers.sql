-- Why a rank comes late.

-- macro: tw_late_causes() | what a rank that comes last did longer than the others on its way: cause (as in stragglers), place (of the cause in lists), words (a clause that says it)
CREATE TEMP MACRO IF NOT EXISTS tw_late_causes() AS TABLE
SELECT *
FROM (VALUES
    ('compute', 1, 'it computes longer'),
    ('host_bound', 2, 'its host is late'),
    ('data_loading', 3, 'it waits for data'),
    ('copies', 4, 'it copies longer'),
    ('other_group', 5, 'it waits in another process group'),
    ('device_delay', 6, 'its GPU starts launched work late'),
    ('unknown_idle', 7, 'it idles longer, no cause recorded')
) AS causes(cause, place, words);
