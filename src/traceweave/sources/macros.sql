-- Vocabulary shared by the loaders: what a name says about the kind of work. Sources: field knowledge of NCCL kernel
-- names from 2.7 to 2.29, Kineto's `Collective name` spellings, CUPTI copy names.

-- 'communication', 'memory' or 'compute' from the kind of a GPU op and its name.
CREATE OR REPLACE TEMP MACRO gpu_category(kind, name) AS CASE
    WHEN kind IN ('memcpy', 'memset') THEN 'memory'
    WHEN regexp_matches(name, '(?i)nccl|rccl|msccl|nvshmem|cross_device_reduce|hccl|deep_ep::|oneRankReduce') THEN 'communication'
    WHEN regexp_matches(name, '^__amd_rocclr_(copy|fill)Buffer|^MEMORY_COPY') THEN 'memory'
    ELSE 'compute'
END;

-- The sort of work a kernel does, from its name; first match wins.
CREATE OR REPLACE TEMP MACRO gpu_class(kind, name) AS CASE
    WHEN kind IN ('memcpy', 'memset') THEN 'copy'
    WHEN gpu_category(kind, name) = 'memory' THEN 'copy'
    WHEN gpu_category(kind, name) = 'communication' THEN
        CASE WHEN regexp_matches(name, '(?i)send_?recv|nvshmem.*(put|get)') THEN 'p2p' ELSE 'collective' END
    WHEN regexp_matches(name, '(?i)flash|fmha|attention|attn|sdpa|mha_|paged_?kv|mla_') THEN 'attention'
    WHEN regexp_matches(name, '(?i)winograd|dgrad|wgrad|implicit_gemm|cudnn.*(fprop|bprop)|conv([^e]|e[^r])') THEN 'conv'
    WHEN regexp_matches(name, '(?i)(^b?|[^b]|[^f]b)gemm|matmul|cutlass|cublas|splitK|nvjet|_mm_|\bmma\b|Cijk_|wgmma') THEN 'gemm'
    WHEN regexp_matches(name, '(?i)multi_tensor_apply|adam|sgd|lamb|optimizer') THEN 'optimizer'
    WHEN regexp_matches(name, '(?i)layer_?norm|rms_?norm|batch_?norm|group_?norm|bn_fw|bn_bw|normalize') THEN 'norm'
    WHEN regexp_matches(name, '(?i)softmax') THEN 'softmax'
    WHEN regexp_matches(name, '(?i)embedding|indexSelect|index_select') THEN 'embedding'
    WHEN regexp_matches(name, '^triton_') THEN 'triton'
    WHEN regexp_matches(name, '(?i)reduce|reduction|cub::.*Reduce') THEN 'reduction'
    WHEN regexp_matches(name, '(?i)elementwise|pointwise|CatArray|copy_kernel|fill|dropout|gelu|relu|silu') THEN 'elementwise'
    ELSE 'other'
END;

-- The operation a collective's or its kernel's name stands for.
CREATE OR REPLACE TEMP MACRO collective_op(text) AS CASE
    WHEN text IS NULL THEN 'unknown'
    WHEN regexp_matches(text, '(?i)all_?reduce|cross_device_reduce|oneRankReduce') THEN 'all_reduce'
    WHEN regexp_matches(text, '(?i)all_?gather') THEN 'all_gather'
    WHEN regexp_matches(text, '(?i)reduce_?scatter') THEN 'reduce_scatter'
    WHEN regexp_matches(text, '(?i)all_?to_?all') THEN 'all_to_all'
    WHEN regexp_matches(text, '(?i)broadcast') THEN 'broadcast'
    WHEN regexp_matches(text, '(?i)barrier') THEN 'barrier'
    WHEN regexp_matches(text, '(?i)send_?recv') THEN 'unknown'
    WHEN regexp_matches(text, '(?i)recv') THEN 'recv'
    WHEN regexp_matches(text, '(?i)send') THEN 'send'
    WHEN regexp_matches(text, '(?i)gather') THEN 'gather'
    WHEN regexp_matches(text, '(?i)scatter') THEN 'scatter'
    WHEN regexp_matches(text, '(?i)reduce') THEN 'reduce'
    ELSE 'unknown'
END;

-- Bytes per element of an ATen or C++ type name; NULL if unknown.
CREATE OR REPLACE TEMP MACRO dtype_bytes(dtype) AS CASE
    WHEN regexp_matches(dtype, '(?i)complexdouble|complex<double>') THEN 16
    WHEN regexp_matches(dtype, '(?i)complex|double|float64|long|int64') THEN 8
    WHEN regexp_matches(dtype, '(?i)float8|e4m3|e5m2|byte|char|bool|u?int8') THEN 1
    WHEN regexp_matches(dtype, '(?i)half|bfloat16|float16|short|int16') THEN 2
    WHEN regexp_matches(dtype, '(?i)float|int') THEN 4
END;
