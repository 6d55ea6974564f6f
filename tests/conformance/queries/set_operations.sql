-- UNION, INTERSECT, EXCEPT

-- numbers: local
SELECT g FROM numbers UNION SELECT 'z' ORDER BY 1;

-- numbers: local
SELECT mid FROM numbers UNION ALL SELECT tiny FROM numbers;

-- numbers: local
SELECT tiny FROM numbers INTERSECT SELECT h FROM numbers;

-- numbers: local
SELECT tiny FROM numbers EXCEPT SELECT h FROM numbers;

-- numbers: local
SELECT h FROM numbers EXCEPT ALL SELECT h FROM numbers WHERE ok;

-- numbers: local, local
SELECT 'mid', SUM(mid) FROM numbers UNION ALL SELECT 'tiny', SUM(tiny) FROM numbers;

-- numbers: local, local
(SELECT g, AVG(x) FROM numbers GROUP BY g) UNION ALL (SELECT 'all', AVG(x) FROM numbers) ORDER BY 1;

-- numbers: local, local
SELECT id, g FROM numbers WHERE id < 3 UNION BY NAME SELECT id, g FROM numbers WHERE id < 5 ORDER BY id;

-- numbers: local
SELECT COUNT(*) FROM (SELECT mid FROM numbers UNION SELECT small FROM numbers);

-- gaps: local
SELECT g FROM gaps INTERSECT SELECT NULL;

-- texts: local
SELECT name FROM texts EXCEPT SELECT note FROM texts ORDER BY 1;
