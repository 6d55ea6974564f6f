-- Arithmetic, CASE and casts inside and around aggregates

-- numbers: encrypted, encrypted
SELECT SUM(mid) + 1, SUM(mid) * 2 FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(mid) / 2, SUM(mid) // 2 FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(mid) % 7, -SUM(mid) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(price) / COUNT(*), SUM(price) - SUM(fee) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT ROUND(AVG(x), 2), FLOOR(AVG(price)), CEIL(AVG(mid)) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT ABS(SUM(mid)), SIGN(AVG(x)), TRUNC(AVG(price)) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT SQRT(AVG(x * x)), LN(AVG(price)), EXP(AVG(x) / 100) FROM numbers;

-- numbers: encrypted, encrypted
SELECT POWER(AVG(x), 2), LOG10(SUM(price)) FROM numbers;

-- numbers: encrypted, encrypted
SELECT GREATEST(SUM(mid), SUM(tiny)), LEAST(AVG(x), AVG(y)) FROM numbers;

-- numbers: encrypted, encrypted
SELECT COALESCE(SUM(mid), 0), NULLIF(COUNT(mid), 0) FROM numbers;

-- numbers: encrypted
SELECT CASE WHEN SUM(mid) > 0 THEN 'gain' ELSE 'loss' END FROM numbers;

-- numbers: key, encrypted
SELECT g, CASE WHEN AVG(x) > 0 THEN AVG(x) ELSE 0 END FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted
SELECT g, CASE g WHEN 'a' THEN SUM(mid) WHEN 'b' THEN SUM(tiny) END FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted
SELECT g, IF(SUM(mid) > 0, 1, -1) FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted
SELECT SUM(CASE WHEN flag THEN price ELSE 0 END) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(CASE WHEN ok THEN mid END), AVG(CASE WHEN mid > 0 THEN x END) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(IF(flag, 1, 0)), SUM(flag::INT) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT SUM(mid)::DOUBLE, SUM(mid)::VARCHAR, SUM(mid)::DECIMAL(20,2) FROM numbers;

-- numbers: encrypted, encrypted
SELECT CAST(AVG(price) AS INTEGER), CAST(AVG(x) AS DECIMAL(9,3)) FROM numbers;

-- numbers: encrypted, encrypted
SELECT AVG(price)::FLOAT, AVG(x)::REAL FROM numbers;

-- numbers: encrypted x 4
SELECT SUM(mid) > 0, SUM(mid) = 0, SUM(mid) <> 5, AVG(x) < AVG(y) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT SUM(mid) > 0 AND AVG(x) < 1e9, SUM(mid) > 0 OR COUNT(*) = 0, NOT SUM(mid) > 0 FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(mid) BETWEEN -1000000 AND 1000000, AVG(x) IN (1, 2, 3) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(mid) IS NULL, SUM(mid) IS NOT DISTINCT FROM 0 FROM numbers;

-- numbers: encrypted, encrypted
SELECT 'total: ' || SUM(mid), CONCAT('n=', COUNT(mid)) FROM numbers;

-- numbers: key, encrypted
SELECT g, g || ': ' || SUM(price) FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted, encrypted
SELECT SUM(mid // 3), SUM(mid % 3) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(mid / 3), AVG(price / 7) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(ROUND(x)), SUM(ROUND(price, 1)) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(GREATEST(mid, 0)), SUM(LEAST(x, y)) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(COALESCE(mid, 0)), AVG(COALESCE(x, 0)) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(mid::DOUBLE), SUM(x::INTEGER) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(SQRT(abs(x))), AVG(LN(price + 1)) FROM numbers;

-- numbers: encrypted
SELECT SUM(mid & 255) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(TRY_CAST(mid AS TINYINT)), COUNT(TRY_CAST(mid AS TINYINT)) FROM numbers;

-- numbers: encrypted
SELECT SUM(mid) + SUM(tiny) * 2 - COUNT(*) FROM numbers;

-- numbers: encrypted
SELECT (SUM(x * y) - SUM(x) * SUM(y) / COUNT(*)) / (COUNT(*) - 1) FROM numbers WHERE x IS NOT NULL AND y IS NOT NULL;

-- numbers: encrypted
SELECT [SUM(mid), COUNT(mid)] FROM numbers;

-- numbers: encrypted
SELECT {'s': SUM(mid), 'n': COUNT(mid)} FROM numbers;

-- numbers: plain, plain
SELECT SUM(h) / 2, ROUND(AVG(fee), 1) FROM numbers;

-- numbers: key, plain
SELECT g, CASE WHEN COUNT(*) > 45 THEN 'many' ELSE 'few' END FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, plain
SELECT g, FORMAT('{} rows', COUNT(*)) FROM numbers GROUP BY g ORDER BY g;
