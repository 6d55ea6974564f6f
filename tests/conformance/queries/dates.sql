-- Dates, times, timestamps and intervals

-- dates: key, plain, encrypted
SELECT day, COUNT(*), SUM(cost) FROM dates GROUP BY day ORDER BY day;

-- dates: key, encrypted
SELECT date_trunc('month', day) AS month, SUM(cost) FROM dates GROUP BY month ORDER BY month;

-- dates: key, encrypted
SELECT year(day), AVG(cost) FROM dates GROUP BY year(day) ORDER BY 1;

-- dates: key, key, encrypted
SELECT year(day) AS y, quarter(day) AS q, AVG(cost) FROM dates GROUP BY ALL ORDER BY ALL;

-- dates: key, encrypted
SELECT extract(dow FROM day) AS weekday, SUM(cost) FROM dates GROUP BY weekday ORDER BY weekday;

-- dates: key, encrypted
SELECT strftime(day, '%Y-%m') AS m, SUM(cost) FROM dates GROUP BY m ORDER BY m;

-- dates: encrypted
SELECT SUM(cost) FROM dates WHERE day >= DATE '2024-02-01' AND day < DATE '2024-03-01';

-- dates: encrypted
SELECT SUM(cost) FROM dates WHERE day BETWEEN '2024-02-01' AND '2024-02-29';

-- dates: encrypted
SELECT SUM(cost) FROM dates WHERE opened > TIMESTAMP '2024-03-01 12:00:00';

-- dates: encrypted
SELECT SUM(cost) FROM dates WHERE day + INTERVAL 1 MONTH > DATE '2024-04-01';

-- dates: plain, plain, plain
SELECT MIN(day), MAX(day), MAX(day) - MIN(day) FROM dates;

-- dates: key, plain, plain
SELECT site, MIN(opened), MAX(opened) FROM dates GROUP BY site ORDER BY site;

-- dates: encrypted
SELECT AVG(born) FROM dates;

-- dates: key, encrypted
SELECT site, AVG(born) FROM dates GROUP BY site ORDER BY site;

-- dates: encrypted
SELECT AVG(seen) FROM dates;

-- dates: key, encrypted
SELECT site, AVG(seen) FROM dates GROUP BY site ORDER BY site;

-- dates: encrypted
SELECT AVG(slot) FROM dates;

-- dates: key, encrypted
SELECT site, AVG(slot) FROM dates GROUP BY site ORDER BY site;

-- dates: encrypted
SELECT AVG(stay) FROM dates WHERE site = 'riga';

-- dates: encrypted
SELECT AVG(stay) FROM dates;

-- dates: key, encrypted, encrypted
SELECT site, COUNT(stay), AVG(stay) FROM dates GROUP BY site ORDER BY site;

-- dates: encrypted x 4
SELECT COUNT(born), COUNT(seen), COUNT(slot), COUNT(stay) FROM dates;

-- dates: local x 4
SELECT MIN(born), MAX(seen), MIN(slot), MAX(stay) FROM dates;

-- dates: key, local, local
SELECT site, MIN(born), MAX(born) FROM dates GROUP BY site ORDER BY site;

-- dates: local
SELECT MAX(born) - MIN(born) FROM dates;

-- dates: local
SELECT MEDIAN(seen) FROM dates;

-- dates: local
SELECT COUNT(DISTINCT born) FROM dates;

-- dates: encrypted
SELECT AVG(day - born) FROM dates;

-- dates: encrypted
SELECT SUM(day - born) FROM dates;

-- dates: encrypted
SELECT AVG(date_diff('year', born, day)) FROM dates;

-- dates: key, encrypted
SELECT site, AVG(date_diff('day', born, day)) FROM dates GROUP BY site ORDER BY site;

-- dates: encrypted
SELECT SUM(year(born)) FROM dates;

-- dates: encrypted
SELECT AVG(extract(hour FROM seen)) FROM dates;

-- dates: encrypted
SELECT AVG(epoch(seen)) FROM dates;

-- dates: encrypted
SELECT COUNT(seen - opened) FROM dates;

-- dates: encrypted
SELECT AVG(seen - opened) FROM dates;

-- dates: key, encrypted
SELECT year(born) // 10 * 10 AS decade, SUM(cost) FROM dates GROUP BY decade ORDER BY decade;

-- dates: key, encrypted
SELECT born, SUM(cost) FROM dates GROUP BY born ORDER BY born;

-- dates: key, encrypted
SELECT date_trunc('day', seen) AS d, SUM(cost) FROM dates GROUP BY d ORDER BY d;

-- dates: encrypted, local
SELECT SUM(cost), COUNT(*) FROM dates WHERE born < DATE '1970-01-01';

-- dates: encrypted
SELECT SUM(cost) FROM dates WHERE slot > TIME '12:00:00';

-- dates: encrypted
SELECT SUM(cost) FROM dates WHERE stay > INTERVAL 3 DAY;

-- dates: encrypted
SELECT SUM(cost) FROM dates WHERE seen::DATE = day;

-- dates: encrypted
SELECT COUNT_IF(born < day) FROM dates;

-- dates: key, encrypted
SELECT day, SUM(cost) FROM dates GROUP BY day HAVING day > DATE '2024-02-15' ORDER BY SUM(cost) DESC LIMIT 3;

-- dates: plain, plain, plain
SELECT AVG(day), AVG(opened), MEDIAN(day) FROM dates;

-- dates: key, encrypted
SELECT day, AVG(born) FROM dates GROUP BY day ORDER BY AVG(born), day LIMIT 5;

-- dates: key, encrypted
SELECT site, AVG(seen) FROM dates GROUP BY site HAVING AVG(seen) > TIMESTAMP '2000-01-01' ORDER BY site;

-- dates: encrypted
SELECT date_trunc('month', AVG(seen)) FROM dates;

-- dates: encrypted
SELECT AVG(born) + INTERVAL 1 DAY FROM dates;

-- dates: encrypted
SELECT AVG(stay) * 2 FROM dates;

-- dates: plain
SELECT COUNT(*) FROM dates WHERE day > current_date;
