-- Words shared by the translations. A globalTid is hardware 8 | VM 8 | pid 24 | tid 24 bits, a globalPid the same with tid 0.

CREATE OR REPLACE TEMP MACRO nsys_process(global_tid) AS global_tid & -16777216;
CREATE OR REPLACE TEMP MACRO nsys_pid(global_tid) AS (global_tid & 281474959933440) >> 24;
CREATE OR REPLACE TEMP MACRO nsys_tid(global_tid) AS global_tid & 16777215;

-- Times beyond this are damage; below it lengths, and sums with the session start, cannot overflow.
CREATE OR REPLACE TEMP MACRO nsys_timely(t) AS t BETWEEN -4611686018427387903 AND 4611686018427387903;

-- One member of a JSON object, NULL if it has no value: of any type, or, in a third of the time, a whole number. nsys_args
-- makes an object of members joined by concat_ws, NULL if there are none.
CREATE OR REPLACE TEMP MACRO nsys_member(key, value) AS
    CASE WHEN value IS NOT NULL THEN '"' || key || '":' || to_json(value) END;
CREATE OR REPLACE TEMP MACRO nsys_number(key, value) AS '"' || key || '":' || value;
CREATE OR REPLACE TEMP MACRO nsys_args(members) AS CASE WHEN members <> '' THEN ('{' || members || '}')::JSON END;
