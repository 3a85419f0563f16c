SELECT * FROM host_ops WHERE rank = $rank AND op_id = $id
