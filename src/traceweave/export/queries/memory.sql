-- What is allocated and reserved after each memory event, as the analyses of memory count it.
SELECT rank, device, op_id, at_ns, allocated_bytes, reserved_bytes FROM tw_memory_levels()
