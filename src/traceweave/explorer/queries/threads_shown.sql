SELECT thread, pid, tid, label, depths, ops FROM memory.explorer.threads WHERE rank = $rank ORDER BY thread
