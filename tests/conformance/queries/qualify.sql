-- QUALIFY

-- numbers: local, local
SELECT id, price FROM numbers QUALIFY row_number() OVER (PARTITION BY g ORDER BY price DESC, id) = 1 ORDER BY id;

-- numbers: local, local, local
SELECT id, g, rank() OVER (PARTITION BY g ORDER BY id) AS r FROM numbers QUALIFY r <= 2 ORDER BY id;

-- numbers: local, local
SELECT g, SUM(mid) FROM numbers GROUP BY g QUALIFY row_number() OVER (ORDER BY SUM(mid) DESC) = 1;

-- numbers: local
SELECT id FROM numbers QUALIFY COUNT(*) OVER (PARTITION BY h) > 30 ORDER BY id;

-- dates: local, local
SELECT site, born FROM dates QUALIFY row_number() OVER (PARTITION BY site ORDER BY born, id) = 1 ORDER BY site;

-- texts: local, local
SELECT id, note FROM texts QUALIFY lag(note) OVER (ORDER BY id) = note ORDER BY id;

-- numbers: local, local
SELECT id, mid FROM numbers WHERE mid > 0 QUALIFY percent_rank() OVER (ORDER BY mid) > 0.9 ORDER BY id;
