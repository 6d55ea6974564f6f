-- DISTINCT, DISTINCT ON

-- numbers: local
SELECT DISTINCT g FROM numbers ORDER BY g;

-- numbers: local, local
SELECT DISTINCT g, ok FROM numbers ORDER BY g, ok;

-- numbers: local
SELECT DISTINCT flag FROM numbers ORDER BY flag;

-- numbers: local
SELECT DISTINCT tiny // 20 FROM numbers ORDER BY 1;

-- numbers: local, local
SELECT DISTINCT ON (g) g, mid FROM numbers ORDER BY g, id;

-- numbers: local
SELECT DISTINCT COUNT(*) FROM numbers GROUP BY g ORDER BY 1;

-- numbers: plain, local
SELECT COUNT(DISTINCT (g, ok)), COUNT(DISTINCT (g, tiny)) FROM numbers;

-- numbers: local, local, local
SELECT COUNT(DISTINCT mid) FILTER (WHERE ok), SUM(DISTINCT price), LIST(DISTINCT flag ORDER BY flag) FROM numbers;

-- numbers: plain, encrypted
SELECT COUNT(DISTINCT g), SUM(mid) FROM numbers;

-- gaps: local
SELECT DISTINCT void FROM gaps;

-- gaps: local
SELECT DISTINCT g FROM gaps ORDER BY g NULLS FIRST;

-- texts: local
SELECT DISTINCT note FROM texts ORDER BY note;

-- texts: local
SELECT DISTINCT upper(name) FROM texts ORDER BY 1;
