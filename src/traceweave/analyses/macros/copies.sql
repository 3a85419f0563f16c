-- What the traces say about copies.

-- macro: tw_host_memory(name, args) | kind of the memory on the host that a copy reads or writes: 'pageable', 'pinned' or 'managed'; NULL if none takes part or the trace does not say
    -- Kineto: 'Memcpy HtoD (Pageable -> Device)'; nsys: {"source": "pageable", ...}
    lower(nullif(regexp_extract(concat_ws(' ', name, args ->> 'source', args ->> 'destination'), '(?i)pageable|pinned|managed'), ''));

-- macro: tw_can_stall(copy_kind, name, args) | whether the call that starts such a copy may wait for it: one end is the host's memory, and that is not known to be pinned
    copy_kind IN ('HtoD', 'DtoH') AND coalesce(tw_host_memory(name, args) <> 'pinned', TRUE);

-- macro: tw_of_names(names) | selectors of a scenario for the operations with one of these names
    -- a semicolon divides selections: any character stands for it
    array_to_string(list_transform(list_sort(list_distinct(names)), lambda name: 'name=' || replace(name, ';', '?')), '; ');
