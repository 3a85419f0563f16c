SELECT count(*) AS ops FROM hits
