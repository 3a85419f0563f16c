-- What a name on the host says about what the thread was doing.

-- macro: tw_is_sync(name) | whether a call or operator makes its thread wait for the device: CUDA and HIP synchronize calls, blocking copies, aten::item and its kin
CREATE TEMP MACRO IF NOT EXISTS tw_is_sync(name) AS
    -- the plain searches first: they spare most names the regular expression
    (contains(name, 'Synchronize') AND regexp_matches(name, '^(cuda|hip|cu)(Device|Stream|Event|Ctx)Synchronize'))
    OR (contains(name, 'Memcpy') AND regexp_matches(name, '^(cuda|hip|cu)Memcpy') AND NOT contains(name, 'Async'))
    OR name IN ('aten::item', 'aten::_local_scalar_dense');

-- macro: tw_is_allocation(name) | whether a call allocates or frees memory of the GPU
CREATE TEMP MACRO IF NOT EXISTS tw_is_allocation(name) AS
    regexp_matches(name, '^(cuda|hip)(Malloc|Free|HostAlloc|HostRegister|HostUnregister|MemPool)|^(cu|hip)Mem(Alloc|Free|Create|Map|Unmap|Release|SetAccess|Address)');

-- macro: tw_is_module_loading(name) | whether a call, or what the profiler says of its overhead, is the loading or compiling of code for the GPU
CREATE TEMP MACRO IF NOT EXISTS tw_is_module_loading(name) AS
    regexp_matches(name, '(?i)^(cu|hip)(da)?(Module|Library)(Load|Get)|^cuKernelGet|^cuLink|module load|function load|driver compiler');

-- macro: tw_is_data_loading(name) | whether a host range is the training loop waiting for its next batch, as PyTorch marks it (enumerate(DataLoader)#...) or people call it
CREATE TEMP MACRO IF NOT EXISTS tw_is_data_loading(name) AS
    regexp_matches(name, '(?i)data_?load|load_?(batch|data)|(get|next|fetch)_?(batch|data)|batch_?(fetch|load)|prefetch');

-- macro: tw_loading_names() | the names of host ranges that are data loading: name
-- reads: host_ops
CREATE TEMP MACRO IF NOT EXISTS tw_loading_names() AS TABLE
-- Each name is searched once: a condition on the group itself would be tried on every range before they are grouped.
SELECT any_value(name) AS name
FROM host_ops
WHERE kind NOT IN ('runtime', 'driver')
GROUP BY host_ops.name
HAVING tw_is_data_loading(any_value(host_ops.name));
