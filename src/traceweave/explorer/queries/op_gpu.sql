SELECT * FROM gpu_ops WHERE rank = $rank AND op_id = $id
