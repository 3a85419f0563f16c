-- Every table of an Nsight Systems 2023.4 export (schema 3.7.2), as `nsys export --type=sqlite --lazy=false` creates them.

CREATE TABLE StringIds (
    id INTEGER NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE ThreadNames (
    nameId INTEGER NOT NULL,
    priority INTEGER,
    globalTid INTEGER
);
CREATE TABLE ProcessStreams (
    globalPid INTEGER NOT NULL,
    filenameId INTEGER NOT NULL,
    contentId INTEGER NOT NULL
);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (
    globalVid INTEGER,
    devStateName TEXT NOT NULL,
    name TEXT NOT NULL,
    nameEnum INTEGER NOT NULL,
    value TEXT NOT NULL
);
CREATE TABLE TARGET_INFO_NIC_INFO (
    GUID INTEGER NOT NULL,
    stateName TEXT NOT NULL,
    nicId INTEGER NOT NULL,
    name TEXT NOT NULL,
    deviceId INTEGER NOT NULL,
    vendorId INTEGER NOT NULL,
    linkLayer INTEGER NOT NULL
);
CREATE TABLE NIC_ID_MAP (
    nicId INTEGER NOT NULL,
    globalId INTEGER NOT NULL
);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (
    utcEpochNs INTEGER,
    utcTime TEXT,
    localTime TEXT
);
CREATE TABLE ANALYSIS_DETAILS (
    globalVid INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    startTime INTEGER NOT NULL,
    stopTime INTEGER NOT NULL
);
CREATE TABLE PMU_EVENT_REQUESTS (
    id INTEGER NOT NULL,
    eventid INTEGER,
    source INTEGER NOT NULL,
    unit_type INTEGER NOT NULL,
    event_name TEXT,
    PRIMARY KEY (id)
);
CREATE TABLE TARGET_INFO_GPU (
    vmId INTEGER NOT NULL,
    id INTEGER NOT NULL,
    name TEXT,
    busLocation TEXT,
    isDiscrete INTEGER,
    l2CacheSize INTEGER,
    totalMemory INTEGER,
    memoryBandwidth INTEGER,
    clockRate INTEGER,
    smCount INTEGER,
    pwGpuId INTEGER,
    uuid TEXT,
    luid INTEGER,
    chipName TEXT,
    cuDevice INTEGER,
    ctxswDevPath TEXT,
    ctrlDevPath TEXT,
    revision INTEGER,
    nodeMask INTEGER,
    constantMemory INTEGER,
    maxIPC INTEGER,
    maxRegistersPerBlock INTEGER,
    maxShmemPerBlock INTEGER,
    maxShmemPerBlockOptin INTEGER,
    maxShmemPerSm INTEGER,
    maxRegistersPerSm INTEGER,
    threadsPerWarp INTEGER,
    asyncEngines INTEGER,
    maxWarpsPerSm INTEGER,
    maxBlocksPerSm INTEGER,
    maxThreadsPerBlock INTEGER,
    maxBlockDimX INTEGER,
    maxBlockDimY INTEGER,
    maxBlockDimZ INTEGER,
    maxGridDimX INTEGER,
    maxGridDimY INTEGER,
    maxGridDimZ INTEGER,
    computeMajor INTEGER,
    computeMinor INTEGER,
    smMajor INTEGER,
    smMinor INTEGER
);
CREATE TABLE TARGET_INFO_XMC_SPEC (
    vmId INTEGER NOT NULL,
    clientId INTEGER NOT NULL,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    groupId TEXT NOT NULL
);
CREATE TABLE TARGET_INFO_PROCESS (
    processId INTEGER NOT NULL,
    openGlVersion TEXT NOT NULL,
    correlationId INTEGER NOT NULL,
    nameId INTEGER NOT NULL
);
CREATE TABLE TARGET_INFO_NVTX_CUDA_DEVICE (
    name TEXT NOT NULL,
    hwId INTEGER NOT NULL,
    vmId INTEGER NOT NULL,
    deviceId INTEGER NOT NULL
);
CREATE TABLE TARGET_INFO_NVTX_CUDA_CONTEXT (
    name TEXT NOT NULL,
    hwId INTEGER NOT NULL,
    vmId INTEGER NOT NULL,
    processId INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL
);
CREATE TABLE TARGET_INFO_NVTX_CUDA_STREAM (
    name TEXT NOT NULL,
    hwId INTEGER NOT NULL,
    vmId INTEGER NOT NULL,
    processId INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    streamId INTEGER NOT NULL
);
CREATE TABLE TARGET_INFO_CUDA_CONTEXT_INFO (
    nullStreamId INTEGER NOT NULL,
    hwId INTEGER NOT NULL,
    vmId INTEGER NOT NULL,
    processId INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    parentContextId INTEGER,
    isGreenContext INTEGER
);
CREATE TABLE TARGET_INFO_CUDA_STREAM (
    streamId INTEGER NOT NULL,
    hwId INTEGER NOT NULL,
    vmId INTEGER NOT NULL,
    processId INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    flag INTEGER NOT NULL
);
CREATE TABLE TARGET_INFO_WDDM_CONTEXTS (
    context INTEGER NOT NULL,
    engineType INTEGER NOT NULL,
    nodeOrdinal INTEGER NOT NULL,
    friendlyName TEXT NOT NULL
);
CREATE TABLE TARGET_INFO_PERF_METRIC (
    id INTEGER NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    unit TEXT NOT NULL
);
CREATE TABLE TARGET_INFO_NETWORK_METRICS (
    metricsListId INTEGER NOT NULL,
    metricsIdx INTEGER NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    unit TEXT NOT NULL
);
CREATE TABLE META_DATA_CAPTURE (
    name TEXT NOT NULL,
    value TEXT
);
CREATE TABLE META_DATA_EXPORT (
    name TEXT NOT NULL,
    value TEXT
);
CREATE TABLE ENUM_NSYS_EVENT_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_NSYS_EVENT_CLASS (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_GPU_CTX_SWITCH (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_MEM_KIND (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_MEMPOOL_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_MEMPOOL_OPER (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_DEV_MEM_EVENT_OPER (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_KERNEL_LAUNCH_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_SHARED_MEM_LIMIT_CONFIG (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_UNIF_MEM_MIGRATION (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_UNIF_MEM_ACCESS_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUDA_FUNC_CACHE_CONFIG (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUPTI_STREAM_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_CUPTI_SYNC_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_STACK_UNWIND_METHOD (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_SAMPLING_THREAD_STATE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENGL_DEBUG_SOURCE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENGL_DEBUG_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENGL_DEBUG_SEVERITY (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_VULKAN_PIPELINE_CREATION_FLAGS (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_D3D12_HEAP_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_D3D12_PAGE_PROPERTY (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_D3D12_HEAP_FLAGS (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_D3D12_CMD_LIST_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENACC_DEVICE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENACC_EVENT_KIND (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENMP_EVENT_KIND (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENMP_THREAD (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENMP_DISPATCH (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENMP_SYNC_REGION (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENMP_WORK (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENMP_MUTEX (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENMP_TASK_FLAG (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_OPENMP_TASK_STATUS (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_SLI_TRANSER (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_DXGI_FORMAT (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_NVDRIVER_EVENT_ID (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_WDDM_PAGING_QUEUE_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_WDDM_PACKET_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_WDDM_ENGINE_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_WDDM_INTERRUPT_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_WDDM_VIDMM_OP_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_NET_LINK_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_NET_DEVICE_ID (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_NET_VENDOR_ID (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_ETW_MEMORY_TRANSFER_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_PMU_EVENT_SOURCE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE ENUM_PMU_UNIT_TYPE (
    id INTEGER NOT NULL PRIMARY KEY,
    name TEXT,
    label TEXT
);
CREATE TABLE GENERIC_EVENT_SOURCES (
    sourceId INTEGER NOT NULL PRIMARY KEY,
    data TEXT NOT NULL
);
CREATE TABLE GENERIC_EVENT_TYPES (
    typeId INTEGER NOT NULL PRIMARY KEY,
    sourceId INTEGER NOT NULL,
    data TEXT NOT NULL
);
CREATE TABLE GENERIC_EVENTS (
    rawTimestamp INTEGER NOT NULL,
    timestamp INTEGER,
    typeId INTEGER NOT NULL,
    data TEXT NOT NULL
);
CREATE TABLE ETW_PROVIDERS (
    providerId INTEGER NOT NULL PRIMARY KEY,
    providerNameId INTEGER NOT NULL,
    guid TEXT NOT NULL
);
CREATE TABLE ETW_TASKS (
    taskNameId INTEGER NOT NULL,
    taskId INTEGER NOT NULL,
    providerId INTEGER NOT NULL
);
CREATE TABLE ETW_EVENTS (
    timestamp INTEGER NOT NULL,
    processId INTEGER,
    threadId INTEGER,
    providerId INTEGER NOT NULL,
    taskId INTEGER NOT NULL,
    eventId INTEGER NOT NULL,
    version INTEGER NOT NULL,
    opcode INTEGER,
    data TEXT NOT NULL
);
CREATE TABLE TARGET_INFO_GPU_METRICS (
    typeId INTEGER NOT NULL,
    sourceId INTEGER NOT NULL,
    typeName TEXT NOT NULL,
    metricId INTEGER NOT NULL,
    metricName TEXT NOT NULL
);
CREATE TABLE GPU_METRICS (
    timestamp INTEGER,
    typeId INTEGER NOT NULL,
    metricId INTEGER NOT NULL,
    value INTEGER NOT NULL
);
CREATE TABLE MPI_COMMUNICATORS (
    rank INTEGER,
    timestamp INTEGER,
    commHandle INTEGER,
    parentHandle INTEGER,
    localRank INTEGER,
    size INTEGER,
    groupRoot INTEGER,
    groupRootUid INTEGER,
    members TEXT
);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    greenContextId INTEGER,
    streamId INTEGER NOT NULL,
    correlationId INTEGER,
    globalPid INTEGER,
    bytes INTEGER NOT NULL,
    copyKind INTEGER NOT NULL,
    deprecatedSrcId INTEGER,
    srcKind INTEGER,
    dstKind INTEGER,
    srcDeviceId INTEGER,
    srcContextId INTEGER,
    dstDeviceId INTEGER,
    dstContextId INTEGER,
    migrationCause INTEGER,
    graphNodeId INTEGER,
    virtualAddress INTEGER
);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    greenContextId INTEGER,
    streamId INTEGER NOT NULL,
    correlationId INTEGER,
    globalPid INTEGER,
    value INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    graphNodeId INTEGER,
    memKind INTEGER
);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    greenContextId INTEGER,
    streamId INTEGER NOT NULL,
    correlationId INTEGER,
    globalPid INTEGER,
    demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL,
    mangledName INTEGER,
    launchType INTEGER,
    cacheConfig INTEGER,
    registersPerThread INTEGER NOT NULL,
    gridX INTEGER NOT NULL,
    gridY INTEGER NOT NULL,
    gridZ INTEGER NOT NULL,
    blockX INTEGER NOT NULL,
    blockY INTEGER NOT NULL,
    blockZ INTEGER NOT NULL,
    staticSharedMemory INTEGER NOT NULL,
    dynamicSharedMemory INTEGER NOT NULL,
    localMemoryPerThread INTEGER NOT NULL,
    localMemoryTotal INTEGER NOT NULL,
    gridId INTEGER NOT NULL,
    sharedMemoryExecuted INTEGER,
    graphNodeId INTEGER,
    sharedMemoryLimitConfig INTEGER
);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    greenContextId INTEGER,
    streamId INTEGER NOT NULL,
    correlationId INTEGER,
    globalPid INTEGER,
    syncType INTEGER NOT NULL,
    eventId INTEGER NOT NULL
);
CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (
    deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    greenContextId INTEGER,
    streamId INTEGER NOT NULL,
    correlationId INTEGER,
    globalPid INTEGER,
    eventId INTEGER NOT NULL
);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    returnValue INTEGER NOT NULL,
    callchainId INTEGER
);
CREATE TABLE CUDNN_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    nameId INTEGER NOT NULL
);
CREATE TABLE CUBLAS_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    nameId INTEGER NOT NULL
);
CREATE TABLE CUDA_GRAPH_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    nameId INTEGER NOT NULL,
    graphNodeId INTEGER NOT NULL,
    originalGraphNodeId INTEGER
);
CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (
    start INTEGER NOT NULL,
    globalPid INTEGER NOT NULL,
    address INTEGER NOT NULL,
    originalFaultPc INTEGER,
    CpuInstruction INTEGER NOT NULL,
    module INTEGER NOT NULL,
    unresolvedFaultPc INTEGER
);
CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalPid INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    address INTEGER NOT NULL,
    numberOfPageFaults INTEGER NOT NULL,
    faultAccessType INTEGER NOT NULL
);
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (
    start INTEGER NOT NULL,
    globalPid INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    address INTEGER NOT NULL,
    pc INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    memKind INTEGER NOT NULL,
    memoryOperationType INTEGER NOT NULL,
    name TEXT,
    correlationId INTEGER,
    localMemoryPoolAddress INTEGER,
    localMemoryPoolReleaseThreshold INTEGER,
    localMemoryPoolSize INTEGER,
    localMemoryPoolUtilizedSize INTEGER,
    importedMemoryPoolAddress INTEGER,
    importedMemoryPoolProcessId INTEGER
);
CREATE TABLE CUDA_GPU_MEMORY_POOL_EVENTS (
    start INTEGER NOT NULL,
    globalPid INTEGER NOT NULL,
    deviceId INTEGER NOT NULL,
    address INTEGER NOT NULL,
    operationType INTEGER NOT NULL,
    poolType INTEGER NOT NULL,
    correlationId INTEGER,
    minBytesToKeep INTEGER,
    localMemoryPoolReleaseThreshold INTEGER,
    localMemoryPoolSize INTEGER,
    localMemoryPoolUtilizedSize INTEGER
);
CREATE TABLE CUDA_CALLCHAINS (
    id INTEGER NOT NULL,
    symbol INTEGER NOT NULL,
    module INTEGER NOT NULL,
    unresolved INTEGER,
    originalIP INTEGER,
    stackDepth INTEGER NOT NULL,
    PRIMARY KEY (id, stackDepth)
);
CREATE TABLE MPI_RANKS (
    globalTid INTEGER NOT NULL,
    rank INTEGER NOT NULL
);
CREATE TABLE MPI_P2P_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER,
    globalTid INTEGER,
    textId INTEGER,
    commHandle INTEGER,
    tag INTEGER,
    remoteRank INTEGER,
    size INTEGER,
    requestHandle INTEGER
);
CREATE TABLE MPI_COLLECTIVES_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER,
    globalTid INTEGER,
    textId INTEGER,
    commHandle INTEGER,
    rootRank INTEGER,
    size INTEGER,
    recvSize INTEGER,
    requestHandle INTEGER
);
CREATE TABLE MPI_START_WAIT_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER,
    globalTid INTEGER,
    textId INTEGER,
    requestHandle INTEGER
);
CREATE TABLE MPI_OTHER_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER,
    globalTid INTEGER,
    textId INTEGER
);
CREATE TABLE UCP_WORKERS (
    globalTid INTEGER NOT NULL,
    workerUid INTEGER NOT NULL
);
CREATE TABLE UCP_SUBMIT_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER,
    globalTid INTEGER,
    textId INTEGER,
    bufferAddr INTEGER,
    packedSize INTEGER,
    peerWorkerUid INTEGER,
    tag INTEGER
);
CREATE TABLE UCP_PROGRESS_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER,
    globalTid INTEGER,
    textId INTEGER,
    bufferAddr INTEGER,
    packedSize INTEGER,
    peerWorkerUid INTEGER,
    tag INTEGER
);
CREATE TABLE UCP_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER,
    globalTid INTEGER,
    textId INTEGER
);
CREATE TABLE NVTX_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER,
    eventType INTEGER NOT NULL,
    rangeId INTEGER,
    category INTEGER,
    color INTEGER,
    text TEXT,
    globalTid INTEGER,
    endGlobalTid INTEGER,
    textId INTEGER,
    domainId INTEGER,
    uint64Value INTEGER,
    int64Value INTEGER,
    doubleValue REAL,
    uint32Value INTEGER,
    int32Value INTEGER,
    floatValue REAL,
    jsonTextId INTEGER,
    jsonText TEXT
);
CREATE TABLE OPENGL_API (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    endGlobalTid INTEGER,
    correlationId INTEGER,
    endCorrelationId INTEGER,
    nameId INTEGER NOT NULL,
    endNameId INTEGER,
    returnValue INTEGER NOT NULL,
    frameId INTEGER,
    contextId INTEGER,
    gpu INTEGER,
    display INTEGER
);
CREATE TABLE OPENGL_WORKLOAD (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    endGlobalTid INTEGER,
    correlationId INTEGER,
    endCorrelationId INTEGER,
    nameId INTEGER NOT NULL,
    endNameId INTEGER,
    returnValue INTEGER NOT NULL,
    frameId INTEGER,
    contextId INTEGER,
    gpu INTEGER,
    display INTEGER
);
CREATE TABLE KHR_DEBUG_EVENTS (
    eventClass INTEGER NOT NULL,
    start INTEGER NOT NULL,
    end INTEGER,
    textId INTEGER,
    globalTid INTEGER,
    source INTEGER,
    khrdType INTEGER,
    id INTEGER,
    severity INTEGER,
    correlationId INTEGER,
    context INTEGER
);
CREATE TABLE OSRT_API (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    nameId INTEGER NOT NULL,
    returnValue INTEGER NOT NULL,
    nestingLevel INTEGER,
    callchainId INTEGER NOT NULL
);
CREATE TABLE OSRT_CALLCHAINS (
    id INTEGER NOT NULL,
    symbol INTEGER NOT NULL,
    module INTEGER NOT NULL,
    kernelMode INTEGER,
    thumbCode INTEGER,
    unresolved INTEGER,
    specialEntry INTEGER,
    originalIP INTEGER,
    unwindMethod INTEGER,
    stackDepth INTEGER NOT NULL,
    PRIMARY KEY (id, stackDepth)
);
CREATE TABLE PROFILER_OVERHEAD (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    nameId INTEGER NOT NULL,
    returnValue INTEGER NOT NULL
);
CREATE TABLE SCHED_EVENTS (
    start INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    isSchedIn INTEGER NOT NULL,
    globalTid INTEGER
);
CREATE TABLE COMPOSITE_EVENTS (
    id INTEGER NOT NULL PRIMARY KEY,
    start INTEGER NOT NULL,
    cpu INTEGER,
    threadState INTEGER,
    globalTid INTEGER,
    cpuCycles INTEGER NOT NULL
);
CREATE TABLE SAMPLING_CALLCHAINS (
    id INTEGER NOT NULL,
    symbol INTEGER NOT NULL,
    module INTEGER NOT NULL,
    kernelMode INTEGER,
    thumbCode INTEGER,
    unresolved INTEGER,
    specialEntry INTEGER,
    originalIP INTEGER,
    unwindMethod INTEGER,
    stackDepth INTEGER NOT NULL,
    PRIMARY KEY (id, stackDepth)
);
CREATE TABLE PERF_EVENT_CPU_RAW_EVENT (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    vmId INTEGER,
    componentId INTEGER,
    eventId INTEGER,
    count INTEGER
);
CREATE TABLE SLI_QUERIES (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    frameId INTEGER NOT NULL,
    occQueryIssued INTEGER NOT NULL,
    occQueryAsked INTEGER NOT NULL,
    eventQueryIssued INTEGER NOT NULL,
    eventQueryAsked INTEGER NOT NULL,
    numberOfTransferEvents INTEGER NOT NULL,
    amountOfTransferredData INTEGER NOT NULL
);
CREATE TABLE SLI_P2P (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    frameId INTEGER NOT NULL,
    transferSkipped INTEGER NOT NULL,
    srcGpu INTEGER NOT NULL,
    dstGpu INTEGER NOT NULL,
    numSubResources INTEGER NOT NULL,
    resourceSize INTEGER NOT NULL,
    subResourceIdx INTEGER NOT NULL,
    smplWidth INTEGER,
    smplHeight INTEGER,
    smplDepth INTEGER,
    bytesPerElement INTEGER,
    dxgiFormat INTEGER,
    logSurfaceNames TEXT,
    transferInfo INTEGER,
    isEarlyPushManagedByNvApi INTEGER,
    useAsyncP2pForResolve INTEGER,
    transferFuncName TEXT,
    regimeName TEXT,
    debugName TEXT,
    bindType TEXT
);
CREATE TABLE SLI_STATS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    countComplexFrames INTEGER NOT NULL,
    countStats INTEGER NOT NULL,
    totalInactiveTime INTEGER NOT NULL,
    minPbSize INTEGER NOT NULL,
    maxPbSize INTEGER NOT NULL,
    totalPbSize INTEGER NOT NULL
);
CREATE TABLE DX12_API (
    id INTEGER NOT NULL PRIMARY KEY,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    endCorrelationId INTEGER,
    nameId INTEGER NOT NULL,
    shortContextId INTEGER,
    frameId INTEGER,
    color INTEGER,
    textId INTEGER,
    commandListType INTEGER,
    objectNameId INTEGER,
    longContextId INTEGER
);
CREATE TABLE DX12_WORKLOAD (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    endCorrelationId INTEGER,
    nameId INTEGER NOT NULL,
    shortContextId INTEGER,
    frameId INTEGER,
    gpu INTEGER,
    color INTEGER,
    textId INTEGER,
    commandListType INTEGER,
    objectNameId INTEGER,
    longContextId INTEGER
);
CREATE TABLE DX12_MEMORY_OPERATION (
    gpu INTEGER,
    rangeStart INTEGER,
    rangeEnd INTEGER,
    subresourceId INTEGER,
    heapType INTEGER,
    heapFlags INTEGER,
    cpuPageProperty INTEGER,
    nvApiFlags INTEGER,
    traceEventId INTEGER NOT NULL
);
CREATE TABLE VULKAN_API (
    id INTEGER NOT NULL PRIMARY KEY,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    endCorrelationId INTEGER,
    nameId INTEGER NOT NULL,
    contextId INTEGER
);
CREATE TABLE VULKAN_WORKLOAD (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    endCorrelationId INTEGER,
    nameId INTEGER NOT NULL,
    gpu INTEGER,
    contextId INTEGER,
    color INTEGER,
    textId INTEGER
);
CREATE TABLE VULKAN_DEBUG_API (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    endCorrelationId INTEGER,
    nameId INTEGER NOT NULL,
    contextId INTEGER,
    color INTEGER,
    textId INTEGER
);
CREATE TABLE VULKAN_PIPELINE_CREATION_EVENTS (
    id INTEGER NOT NULL PRIMARY KEY,
    duration INTEGER,
    flags INTEGER,
    traceEventId INTEGER NOT NULL
);
CREATE TABLE VULKAN_PIPELINE_STAGE_EVENTS (
    id INTEGER NOT NULL PRIMARY KEY,
    duration INTEGER,
    flags INTEGER,
    creationEventId INTEGER NOT NULL
);
CREATE TABLE GPU_CONTEXT_SWITCH_EVENTS (
    tag INTEGER NOT NULL,
    vmId INTEGER NOT NULL,
    seqNo INTEGER NOT NULL,
    contextId INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    globalPid INTEGER,
    gpuId INTEGER
);
CREATE TABLE ETW_EVENTS_DEPRECATED_TABLE (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    providerName INTEGER,
    taskName INTEGER,
    description INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_THREAD (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    threadId INTEGER,
    threadType INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_PARALLEL (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    parallelId INTEGER,
    parentTaskId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_SYNC_REGION_WAIT (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    parallelId INTEGER,
    taskId INTEGER,
    kind INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_SYNC_REGION (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    parallelId INTEGER,
    taskId INTEGER,
    kind INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_TASK (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    parallelId INTEGER,
    taskId INTEGER,
    kind INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_MASTER (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    parallelId INTEGER,
    taskId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_REDUCTION (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    parallelId INTEGER,
    taskId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_TASK_CREATE (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    parentTaskId INTEGER,
    newTaskId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_TASK_SCHEDULE (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    parallelId INTEGER,
    priorTaskId INTEGER,
    priorTaskStatus INTEGER,
    nextTaskId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_CANCEL (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    taskId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_MUTEX_WAIT (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    kind INTEGER,
    waitId INTEGER,
    taskId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_CRITICAL_SECTION (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    kind INTEGER,
    waitId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_MUTEX_RELEASED (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    kind INTEGER,
    waitId INTEGER,
    taskId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_LOCK_INIT (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    kind INTEGER,
    waitId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_LOCK_DESTROY (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    kind INTEGER,
    waitId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_WORKSHARE (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    kind INTEGER,
    parallelId INTEGER,
    taskId INTEGER,
    count INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_DISPATCH (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    kind INTEGER,
    parallelId INTEGER,
    taskId INTEGER
);
CREATE TABLE OPENMP_EVENT_KIND_FLUSH (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    nameId INTEGER NOT NULL,
    eventKind INTEGER,
    threadId INTEGER
);
CREATE TABLE D3D11_PIX_DEBUG_API (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    endCorrelationId INTEGER,
    nameId INTEGER NOT NULL,
    shortContextId INTEGER,
    frameId INTEGER,
    color INTEGER,
    textId INTEGER
);
CREATE TABLE D3D12_PIX_DEBUG_API (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    correlationId INTEGER,
    endCorrelationId INTEGER,
    nameId INTEGER NOT NULL,
    shortContextId INTEGER,
    frameId INTEGER,
    color INTEGER,
    textId INTEGER,
    commandListType INTEGER,
    objectNameId INTEGER,
    longContextId INTEGER
);
CREATE TABLE WDDM_EVICT_ALLOCATION_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    allocationHandle INTEGER NOT NULL
);
CREATE TABLE WDDM_PAGING_QUEUE_PACKET_START_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    dxgDevice INTEGER,
    dxgAdapter INTEGER,
    pagingQueue INTEGER NOT NULL,
    pagingQueuePacket INTEGER NOT NULL,
    sequenceId INTEGER NOT NULL,
    alloc INTEGER,
    vidMmOpType INTEGER NOT NULL,
    pagingQueueType INTEGER NOT NULL
);
CREATE TABLE WDDM_PAGING_QUEUE_PACKET_STOP_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    pagingQueue INTEGER NOT NULL,
    pagingQueuePacket INTEGER NOT NULL,
    sequenceId INTEGER NOT NULL
);
CREATE TABLE WDDM_PAGING_QUEUE_PACKET_INFO_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    pagingQueue INTEGER NOT NULL,
    pagingQueuePacket INTEGER NOT NULL,
    sequenceId INTEGER NOT NULL
);
CREATE TABLE WDDM_QUEUE_PACKET_START_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    context INTEGER NOT NULL,
    dmaBufferSize INTEGER NOT NULL,
    dmaBuffer INTEGER NOT NULL,
    queuePacket INTEGER NOT NULL,
    progressFenceValue INTEGER NOT NULL,
    packetType INTEGER NOT NULL,
    submitSequence INTEGER NOT NULL,
    allocationListSize INTEGER NOT NULL,
    patchLocationListSize INTEGER NOT NULL,
    present INTEGER NOT NULL,
    engineType INTEGER NOT NULL,
    syncObject INTEGER
);
CREATE TABLE WDDM_QUEUE_PACKET_STOP_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    context INTEGER NOT NULL,
    queuePacket INTEGER NOT NULL,
    packetType INTEGER NOT NULL,
    submitSequence INTEGER NOT NULL,
    preempted INTEGER NOT NULL,
    timeouted INTEGER NOT NULL,
    engineType INTEGER NOT NULL
);
CREATE TABLE WDDM_QUEUE_PACKET_INFO_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    context INTEGER NOT NULL,
    packetType INTEGER NOT NULL,
    submitSequence INTEGER NOT NULL,
    engineType INTEGER NOT NULL
);
CREATE TABLE WDDM_DMA_PACKET_START_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    context INTEGER NOT NULL,
    queuePacketContext INTEGER NOT NULL,
    uliSubmissionId INTEGER NOT NULL,
    dmaBuffer INTEGER NOT NULL,
    packetType INTEGER NOT NULL,
    ulQueueSubmitSequence INTEGER NOT NULL,
    quantumStatus INTEGER NOT NULL,
    engineType INTEGER NOT NULL
);
CREATE TABLE WDDM_DMA_PACKET_STOP_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    context INTEGER NOT NULL,
    uliCompletionId INTEGER NOT NULL,
    packetType INTEGER NOT NULL,
    ulQueueSubmitSequence INTEGER NOT NULL,
    preempted INTEGER NOT NULL,
    engineType INTEGER NOT NULL
);
CREATE TABLE WDDM_DMA_PACKET_INFO_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    context INTEGER NOT NULL,
    uliCompletionId INTEGER NOT NULL,
    faultedVirtualAddress INTEGER NOT NULL,
    faultedProcessHandle INTEGER NOT NULL,
    packetType INTEGER NOT NULL,
    ulQueueSubmitSequence INTEGER NOT NULL,
    interruptType INTEGER NOT NULL,
    quantumStatus INTEGER NOT NULL,
    pageFaultFlags INTEGER NOT NULL,
    engineType INTEGER NOT NULL
);
CREATE TABLE WDDM_HW_QUEUE_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    context INTEGER NOT NULL,
    hwQueue INTEGER NOT NULL,
    parentDxgHwQueue INTEGER NOT NULL
);
CREATE TABLE NVVIDEO_ENCODER_API (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    nameId INTEGER NOT NULL
);
CREATE TABLE NVVIDEO_DECODER_API (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    nameId INTEGER NOT NULL
);
CREATE TABLE NVVIDEO_JPEG_API (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    nameId INTEGER NOT NULL
);
CREATE TABLE GPU_MEMORY_BUDGET_EVENTS (
    timestamp INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    newBudget INTEGER,
    segmentGroup INTEGER
);
CREATE TABLE GPU_MEMORY_USAGE_EVENTS (
    timestamp INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    newUsage INTEGER,
    segmentGroup INTEGER
);
CREATE TABLE DEMOTED_BYTES_EVENTS (
    timestamp INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    commitment INTEGER
);
CREATE TABLE TOTAL_BYTES_RESIDENT_IN_SEGMENT_EVENTS (
    timestamp INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER NOT NULL,
    totalBytesResident INTEGER,
    segmentGroup INTEGER,
    segmentId INTEGER
);
CREATE TABLE MEMORY_TRANSFER_EVENTS (
    start INTEGER NOT NULL,
    globalTid INTEGER,
    gpu INTEGER,
    taskId INTEGER NOT NULL,
    eventId INTEGER NOT NULL,
    allocationGlobalHandle INTEGER NOT NULL,
    dmaBuffer INTEGER NOT NULL,
    size INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    memoryTransferType INTEGER NOT NULL
);
CREATE TABLE NV_LOAD_BALANCE_MASTER_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER NOT NULL,
    gpu INTEGER NOT NULL,
    eventId INTEGER NOT NULL,
    task TEXT NOT NULL,
    frameCount INTEGER NOT NULL,
    frameTime REAL NOT NULL,
    averageFrameTime REAL NOT NULL,
    averageLatency REAL NOT NULL,
    minLatency REAL NOT NULL,
    averageQueuedFrames REAL NOT NULL,
    totalActiveMs REAL NOT NULL,
    totalIdleMs REAL NOT NULL,
    idlePercent REAL NOT NULL,
    isGPUAlmostOneFrameAhead INTEGER NOT NULL
);
CREATE TABLE NV_LOAD_BALANCE_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalTid INTEGER NOT NULL,
    gpu INTEGER NOT NULL,
    eventId INTEGER NOT NULL,
    task TEXT NOT NULL,
    averageFPS REAL NOT NULL,
    queuedFrames REAL NOT NULL,
    averageQueuedFrames REAL NOT NULL,
    currentCPUTime REAL NOT NULL,
    averageCPUTime REAL NOT NULL,
    averageStallTime REAL NOT NULL,
    averageCPUIdleTime REAL NOT NULL,
    isGPUAlmostOneFrameAhead INTEGER NOT NULL
);
CREATE TABLE PROCESSES (
    globalPid INTEGER,
    pid INTEGER,
    name TEXT
);
CREATE TABLE CUPTI_ACTIVITY_KIND_OPENACC_DATA (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    nameId INTEGER NOT NULL,
    globalTid INTEGER,
    eventKind INTEGER NOT NULL,
    DeviceType INTEGER NOT NULL,
    lineNo INTEGER NOT NULL,
    cuDeviceId INTEGER NOT NULL,
    cuContextId INTEGER NOT NULL,
    cuStreamId INTEGER NOT NULL,
    srcFile INTEGER,
    funcName INTEGER,
    bytes INTEGER,
    varName INTEGER
);
CREATE TABLE CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    nameId INTEGER NOT NULL,
    globalTid INTEGER,
    eventKind INTEGER NOT NULL,
    DeviceType INTEGER NOT NULL,
    lineNo INTEGER NOT NULL,
    cuDeviceId INTEGER NOT NULL,
    cuContextId INTEGER NOT NULL,
    cuStreamId INTEGER NOT NULL,
    srcFile INTEGER,
    funcName INTEGER,
    numGangs INTEGER,
    numWorkers INTEGER,
    vectorLength INTEGER,
    kernelName INTEGER
);
CREATE TABLE CUPTI_ACTIVITY_KIND_OPENACC_OTHER (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    nameId INTEGER NOT NULL,
    globalTid INTEGER,
    eventKind INTEGER NOT NULL,
    DeviceType INTEGER NOT NULL,
    lineNo INTEGER NOT NULL,
    cuDeviceId INTEGER NOT NULL,
    cuContextId INTEGER NOT NULL,
    cuStreamId INTEGER NOT NULL,
    srcFile INTEGER,
    funcName INTEGER
);
CREATE TABLE NET_NIC_METRIC (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalId INTEGER NOT NULL,
    metricsListId INTEGER NOT NULL,
    metricsIdx INTEGER NOT NULL,
    value INTEGER NOT NULL
);
CREATE TABLE NET_IB_SWITCH_METRIC (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalId INTEGER NOT NULL,
    metricsListId INTEGER NOT NULL,
    metricsIdx INTEGER NOT NULL,
    value INTEGER NOT NULL
);
CREATE TABLE PMU_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalVm INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    counter_id INTEGER
);
CREATE TABLE PMU_EVENT_COUNTERS (
    id INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    value INTEGER NOT NULL
);
CREATE TABLE TRACE_PROCESS_EVENT_NVMEDIA (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL,
    globalTid INTEGER,
    nameId INTEGER NOT NULL,
    correlationId INTEGER
);
CREATE TABLE UNCORE_PMU_EVENTS (
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    globalVm INTEGER NOT NULL,
    clusterId INTEGER,
    counterId INTEGER
);
CREATE TABLE UNCORE_PMU_EVENT_VALUES (
    id INTEGER NOT NULL,
    type INTEGER NOT NULL,
    value INTEGER NOT NULL,
    rawId INTEGER NOT NULL,
    clusterId INTEGER
);
