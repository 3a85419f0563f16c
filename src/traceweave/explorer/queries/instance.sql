SELECT * FROM collective_instances WHERE collective_id = $collective
