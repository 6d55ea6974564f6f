-- WHERE and GROUP BY over plain, encrypted, sealed and local columns

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE g = 'a';

-- numbers: encrypted, plain
SELECT SUM(mid), COUNT(*) FROM numbers WHERE h > 2 AND ok;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE g IN ('a', 'b') OR h IS NULL;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE g LIKE 'a%';

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE NOT ok;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE p BETWEEN -1 AND 1;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE mid > 0;

-- numbers: encrypted, encrypted
SELECT SUM(price), AVG(price) FROM numbers WHERE price > 500;

-- numbers: encrypted, local, encrypted
SELECT SUM(x), COUNT(*), SUM(h) FROM numbers WHERE x > 0;

-- numbers: key, encrypted, local
SELECT g, SUM(price), COUNT(*) FROM numbers WHERE mid > 0 GROUP BY g ORDER BY g;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE flag;

-- numbers: key, encrypted
SELECT flag, SUM(price) FROM numbers GROUP BY flag ORDER BY flag;

-- numbers: key, encrypted
SELECT mid > 0 AS positive, AVG(price) FROM numbers GROUP BY positive ORDER BY positive;

-- numbers: key, local, encrypted
SELECT tiny // 50 AS bucket, COUNT(*), AVG(x) FROM numbers GROUP BY bucket ORDER BY bucket;

-- numbers: key, local
SELECT tiny // 50 AS bucket, MAX(x) FROM numbers GROUP BY bucket ORDER BY bucket;

-- numbers: key, local, local
SELECT flag, MEDIAN(h), MIN(g) FROM numbers GROUP BY flag ORDER BY flag;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE rank > 20;

-- numbers: key, encrypted
SELECT rank % 3 AS r, SUM(mid) FROM numbers GROUP BY r ORDER BY r;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE code LIKE 'c1%';

-- numbers: key, encrypted
SELECT left(code, 2) AS c, SUM(mid) FROM numbers GROUP BY c ORDER BY c;

-- numbers: encrypted, local
SELECT SUM(mid), COUNT(*) FROM numbers WHERE code < 'c5' AND rank < 50;

-- numbers: key, encrypted, local
SELECT left(code, 2) AS c, SUM(mid), MAX(mid) FROM numbers GROUP BY c ORDER BY c;

-- numbers: encrypted, plain
SELECT SUM(mid), COUNT(*) FROM numbers WHERE false;

-- numbers: encrypted, plain
SELECT SUM(mid), COUNT(*) FROM numbers WHERE NULL;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers WHERE false GROUP BY g;

-- numbers: encrypted, plain
SELECT SUM(mid), COUNT(*) FROM numbers WHERE true;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers WHERE id % 3 = 0 GROUP BY g ORDER BY g;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE x > y;

-- numbers: local
SELECT SUM(mid) FROM numbers WHERE x > (SELECT AVG(x) FROM numbers);

-- numbers: encrypted
SELECT SUM(mid) FROM numbers WHERE extreme = 0;

-- numbers: key, encrypted
SELECT g, AVG(x) FROM numbers WHERE y IS NOT NULL GROUP BY g ORDER BY g;
