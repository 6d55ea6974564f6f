-- TPC-H lineitem: Q1, Q6 and their kind

-- lineitem: key, key, encrypted x 7, plain
SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
  SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS
  sum_charge, AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS
  count_order
FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;

-- lineitem: encrypted
SELECT SUM(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR AND l_discount BETWEEN
  0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24;

-- lineitem: key, encrypted
SELECT year(l_shipdate) AS l_year, SUM(l_extendedprice * (1 - l_discount)) AS volume
FROM lineitem GROUP BY l_year ORDER BY l_year;

-- lineitem: key, encrypted, encrypted
SELECT l_shipmode, COUNT_IF(l_quantity > 25) AS large, COUNT_IF(l_quantity <= 25) AS small
FROM lineitem WHERE l_commitdate < l_receiptdate AND l_shipdate < l_commitdate GROUP BY l_shipmode ORDER BY l_shipmode;

-- lineitem: key, key, encrypted, encrypted, encrypted
SELECT l_returnflag, l_shipmode, CORR(l_quantity, l_extendedprice), STDDEV(l_discount), REGR_SLOPE(l_extendedprice,
  l_quantity)
FROM lineitem GROUP BY l_returnflag, l_shipmode ORDER BY l_returnflag, l_shipmode;

-- lineitem: key, encrypted, local
SELECT l_linestatus, AVG(l_extendedprice), MEDIAN(l_extendedprice)
FROM lineitem GROUP BY l_linestatus ORDER BY l_linestatus;

-- lineitem: key, key, encrypted
SELECT l_returnflag, l_linestatus, SUM(l_extendedprice)
FROM lineitem GROUP BY CUBE (l_returnflag, l_linestatus) ORDER BY l_returnflag, l_linestatus;

-- lineitem: key, encrypted
SELECT l_suppkey, SUM(l_extendedprice * (1 - l_discount)) AS total_revenue
FROM lineitem WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' GROUP BY l_suppkey
ORDER BY total_revenue DESC, l_suppkey LIMIT 1;

-- lineitem: key, encrypted
SELECT l_orderkey, SUM(l_quantity) FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 250 ORDER BY l_orderkey;

-- lineitem: local
SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly
FROM lineitem
WHERE l_quantity < (SELECT 0.2 * AVG(l_quantity) FROM lineitem AS i WHERE i.l_partkey = lineitem.l_partkey);

-- lineitem: encrypted
SELECT SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem
WHERE (l_quantity BETWEEN 1 AND 11 AND l_shipmode IN ('AIR', 'REG AIR')) OR (l_quantity BETWEEN 20 AND 30 AND
  l_shipinstruct = 'DELIVER IN PERSON');

-- lineitem: encrypted
SELECT 100.00 * SUM(CASE WHEN l_shipmode = 'AIR' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) /
  SUM(l_extendedprice * (1 - l_discount)) AS share
FROM lineitem WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01';

-- lineitem: local x 4
WITH revenue AS (SELECT l_suppkey AS s, SUM(l_extendedprice * (1 - l_discount)) AS r FROM lineitem GROUP BY s) SELECT
  s, r, r = (SELECT MAX(r) FROM revenue), rank() OVER (ORDER BY r DESC)
FROM revenue ORDER BY s;

-- lineitem: key, key, local
SELECT l_returnflag, l_linestatus, COUNT(DISTINCT l_orderkey)
FROM lineitem GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;

-- lineitem: key, encrypted
SELECT l_linenumber, SUM(l_tax * l_extendedprice)
FROM lineitem GROUP BY l_linenumber HAVING SUM(l_tax * l_extendedprice) > 0 ORDER BY l_linenumber;
