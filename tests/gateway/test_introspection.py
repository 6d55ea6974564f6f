"""What tools ask before a person asks anything: each statement is answered, and the tables are found in the answers.

Metabase and Tableau read through MariaDB's JDBC driver, whose statements are those of its DatabaseMetaData; Grafana's
are of its MySQL data source's editor; DBeaver's of its MySQL extension. JDBC's were read from the driver, the others
are from memory. Metabase's question for the time zone (TIMEDIFF over CONVERT_TZ) is refused, and not among them.
"""

from __future__ import annotations

import datetime
from contextlib import closing

import pytest

from tests.gateway.conftest import Gateway

JDBC = (
    "SET sql_mode=CONCAT(@@sql_mode,',STRICT_TRANS_TABLES'),session_track_system_variables = "
    "CONCAT(@@global.session_track_system_variables,',transaction_isolation')",
    "SELECT @@max_allowed_packet, @@system_time_zone, @@time_zone, @@auto_increment_increment",
    "SELECT TABLE_SCHEMA TABLE_CAT, NULL TABLE_SCHEM,  TABLE_NAME, IF(TABLE_SCHEMA IN ('mysql', 'performance_schema', "
    "'sys'), IF(TABLE_TYPE='BASE TABLE', 'SYSTEM TABLE', IF(TABLE_TYPE='VIEW', 'SYSTEM VIEW', TABLE_TYPE)), "
    "IF(TABLE_TYPE='BASE TABLE' or TABLE_TYPE='SYSTEM VERSIONED', 'TABLE', IF(TABLE_TYPE='TEMPORARY', "
    "'LOCAL TEMPORARY', TABLE_TYPE))) as TABLE_TYPE,  TABLE_COMMENT REMARKS, NULL TYPE_CAT, NULL TYPE_SCHEM, "
    "NULL TYPE_NAME, NULL SELF_REFERENCING_COL_NAME,  NULL REF_GENERATION FROM INFORMATION_SCHEMA.TABLES "
    "WHERE TABLE_SCHEMA = 'cleave' AND TABLE_TYPE IN ('BASE TABLE','SYSTEM VERSIONED','VIEW') "
    "ORDER BY TABLE_TYPE,TABLE_CAT,TABLE_SCHEMA,TABLE_NAME",
    "SELECT TABLE_NAME, COLUMN_NAME, UCASE(IF( COLUMN_TYPE LIKE '%(%)%', CONCAT(SUBSTRING( COLUMN_TYPE,1, "
    "LOCATE('(',COLUMN_TYPE) - 1 ), SUBSTRING(COLUMN_TYPE ,1+locate(')', COLUMN_TYPE))), COLUMN_TYPE)) TYPE_NAME, "
    "CASE DATA_TYPE WHEN 'date' THEN 10 WHEN 'time' THEN IF(DATETIME_PRECISION = 0, 10, "
    "CAST(11 + DATETIME_PRECISION as signed integer)) ELSE IF(NUMERIC_PRECISION IS NULL, "
    "LEAST(CHARACTER_MAXIMUM_LENGTH,2147483647), NUMERIC_PRECISION) END COLUMN_SIZE, "
    "CONVERT (CASE DATA_TYPE WHEN 'year' THEN NUMERIC_SCALE ELSE NUMERIC_SCALE END, UNSIGNED INTEGER) DECIMAL_DIGITS, "
    "IF(IS_NULLABLE = 'yes',1,0) NULLABLE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = 'cleave' "
    "AND TABLE_NAME LIKE 'visits' ORDER BY ORDINAL_POSITION",
    "SELECT TABLE_SCHEMA TABLE_CAT, NULL TABLE_SCHEM, TABLE_NAME, COLUMN_NAME, SEQ_IN_INDEX KEY_SEQ, INDEX_NAME PK_NAME"
    " FROM INFORMATION_SCHEMA.STATISTICS WHERE INDEX_NAME='PRIMARY' AND TABLE_SCHEMA = 'cleave' ORDER BY COLUMN_NAME",
    "SELECT KCU.REFERENCED_TABLE_SCHEMA PKTABLE_CAT, KCU.TABLE_NAME FKTABLE_NAME, CASE update_rule "
    "WHEN 'RESTRICT' THEN 1 WHEN 'NO ACTION' THEN 3 WHEN 'CASCADE' THEN 0 END UPDATE_RULE FROM "
    "INFORMATION_SCHEMA.KEY_COLUMN_USAGE KCU INNER JOIN INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS RC ON "
    "KCU.CONSTRAINT_CATALOG = RC.CONSTRAINT_CATALOG AND KCU.CONSTRAINT_SCHEMA = RC.CONSTRAINT_SCHEMA AND "
    "KCU.CONSTRAINT_NAME = RC.CONSTRAINT_NAME AND KCU.TABLE_NAME = RC.TABLE_NAME WHERE KCU.TABLE_NAME = 'visits'",
    "SELECT ROUTINE_SCHEMA PROCEDURE_CAT, ROUTINE_NAME PROCEDURE_NAME, CASE ROUTINE_TYPE WHEN 'FUNCTION' THEN 2 "
    "WHEN 'PROCEDURE' THEN 1 ELSE 0 END PROCEDURE_TYPE, SPECIFIC_NAME FROM INFORMATION_SCHEMA.ROUTINES",
    "SELECT TABLE_SCHEMA TABLE_CAT, NULL TABLE_SCHEM, TABLE_NAME, NULL GRANTOR,GRANTEE, PRIVILEGE_TYPE PRIVILEGE, "
    "IS_GRANTABLE FROM INFORMATION_SCHEMA.TABLE_PRIVILEGES WHERE TABLE_NAME = 'visits'",
    "SELECT TABLE_SCHEMA TABLE_CAT, TABLE_NAME, COLUMN_NAME, NULL AS GRANTOR, GRANTEE, PRIVILEGE_TYPE AS PRIVILEGE, "
    "IS_GRANTABLE FROM INFORMATION_SCHEMA.COLUMN_PRIVILEGES ORDER BY COLUMN_NAME, PRIVILEGE_TYPE",
    "SELECT SCHEMA_NAME TABLE_CAT FROM INFORMATION_SCHEMA.SCHEMATA  ORDER BY SCHEMA_NAME",
    "SELECT 'LOCAL TEMPORARY' TABLE_TYPE UNION SELECT 'SYSTEM TABLE' TABLE_TYPE UNION SELECT 'TABLE' TABLE_TYPE",
    "SELECT ' ' TYPE_CAT, NULL TYPE_SCHEM, 0 DATA_TYPE FROM DUAL WHERE 1=0",
)
METABASE = (
    "SELECT @@GLOBAL.time_zone AS zone, @@system_time_zone AS system, time_format(timediff(now(), convert_tz(now(), "
    "@@GLOBAL.time_zone, '+00:00')), '%H:%i') AS 'offset';",
    "SHOW GLOBAL VARIABLES LIKE 'local_infile'",
    "SHOW GRANTS FOR CURRENT_USER()",
    "SELECT TRUE FROM `cleave`.`visits` WHERE 1 <> 1 LIMIT 0",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "SET @@session.time_zone = 'UTC'",
)
GRAFANA = (
    "SELECT 1",
    "SELECT NOW(), NOW(6), UTC_TIMESTAMP(), UNIX_TIMESTAMP(), CURRENT_TIMESTAMP(6)",
    "SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != 'SYSTEM VIEW' "
    "ORDER BY TABLE_SCHEMA",
    "SELECT table_name FROM information_schema.tables WHERE table_schema = 'cleave' ORDER BY table_name",
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'cleave' AND table_name = "
    "'visits' ORDER BY column_name",
    "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'visits' AND "
    "data_type IN ('bigint','decimal','double') ORDER BY column_name",
)
DBEAVER = (
    "/* a driver's comment */SELECT @@session.auto_increment_increment AS a, @@init_connect AS i, "
    "@@interactive_timeout AS t, @@license AS l, @@net_buffer_length AS n, @@performance_schema AS p, @@sql_mode AS s",
    "SELECT * FROM information_schema.TABLES t\nWHERE t.TABLE_SCHEMA = 'cleave'\nAND t.TABLE_NAME IN "
    "('visits', 'wards', 'CHECK_CONSTRAINTS')",
    "SELECT c.CHECK_CLAUSE, t.TABLE_NAME FROM (SELECT * FROM INFORMATION_SCHEMA.CHECK_CONSTRAINTS WHERE "
    "CONSTRAINT_SCHEMA = 'cleave') c, INFORMATION_SCHEMA.TABLE_CONSTRAINTS t WHERE "
    "c.CONSTRAINT_NAME = t.CONSTRAINT_NAME",
    "SHOW VARIABLES LIKE 'lower_case_table_names'",
    "SHOW ENGINES",
    "SHOW CHARSET",
    "SHOW COLLATION",
    "SHOW PLUGINS",
    "SELECT DATABASE()",
    "SELECT @@GLOBAL.character_set_server, @@GLOBAL.collation_server",
    "SELECT * FROM information_schema.SCHEMATA",
    "SHOW FULL TABLES FROM `cleave`",
    "SHOW TABLE STATUS FROM `cleave`",
    "SHOW TABLE STATUS FROM `cleave` LIKE 'visits'",
    "SELECT * FROM information_schema.COLUMNS WHERE TABLE_SCHEMA='cleave' AND TABLE_NAME='visits' "
    "ORDER BY ORDINAL_POSITION",
    "SELECT kc.CONSTRAINT_NAME,kc.TABLE_NAME,kc.COLUMN_NAME,kc.ORDINAL_POSITION FROM "
    "INFORMATION_SCHEMA.KEY_COLUMN_USAGE kc WHERE kc.TABLE_SCHEMA='cleave' AND kc.REFERENCED_TABLE_NAME IS NULL "
    "AND kc.TABLE_NAME='visits' ORDER BY kc.CONSTRAINT_NAME,kc.ORDINAL_POSITION",
    "SELECT * FROM INFORMATION_SCHEMA.STATISTICS WHERE TABLE_SCHEMA='cleave' AND TABLE_NAME='visits' "
    "ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
    "SHOW INDEX FROM `visits` FROM `cleave`",
    "SHOW CREATE TABLE `cleave`.`visits`",
    "SELECT * FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA='cleave'",
    "SHOW EVENTS FROM `cleave`",
    "SELECT * FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA='cleave' ORDER BY ROUTINE_NAME",
    "SHOW FULL PROCESSLIST",
    "SHOW STATUS",
    "SHOW GLOBAL STATUS",
    "SHOW WARNINGS",
)
TABLEAU = (
    "SELECT IF(@@session.time_zone = 'SYSTEM', @@system_time_zone, @@session.time_zone) AS zone",
    "SET NAMES utf8",
    "SHOW SESSION VARIABLES LIKE 'tx_isolation'",
    "SELECT TABLE_NAME,TABLE_COMMENT,TABLE_TYPE,TABLE_SCHEMA FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA LIKE "
    "'cleave' AND ( TABLE_TYPE='BASE TABLE' OR TABLE_TYPE='VIEW' )",
    "SHOW KEYS FROM `cleave`.`visits`",
    "SELECT SUM(1) AS `COL` FROM `visits` HAVING COUNT(1) > 0",
    "SELECT * FROM `visits` `visits` LIMIT 0",
    "SELECT VERSION(), CONNECTION_ID(), USER()",
)


@pytest.mark.parametrize(
    "statements", [JDBC, METABASE, GRAFANA, DBEAVER, TABLEAU], ids=["jdbc", "metabase", "grafana", "dbeaver", "tableau"]
)
def test_each_statement_is_answered(gateway: Gateway, statements: tuple[str, ...]) -> None:
    columns = {each[0] for each in gateway.truth.execute("DESCRIBE visits").fetchall()}
    with closing(gateway.connect()) as connection, connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)
            rows = cursor.fetchall()
            if "TABLES" in sql.upper() and "TABLE_NAME" in sql.upper():
                assert {"visits", "wards"} <= {each for row in rows for each in row}, sql
            if "SCHEMA.COLUMNS" in sql.upper() and "DATA_TYPE IN" not in sql.upper():
                assert columns <= {each for row in rows for each in row}, sql


def test_columns_tell_of_their_decimals(gateway: Gateway) -> None:
    with closing(gateway.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, bill, seen, level, name FROM visits LIMIT 1")
        assert [each[5] for each in cursor.description] == [0, 2, 6, 31, 0]


def test_statements_over_no_table_have_types(gateway: Gateway) -> None:
    ((now, blob, zone, offset),) = gateway.rows(
        "SELECT NOW(), X'00ff41', @@time_zone, TIMEDIFF(NOW(), CONVERT_TZ(NOW(), @@time_zone, '+00:00'))"
    )
    assert isinstance(now, datetime.datetime)
    assert (blob, zone, offset) == (b"\0\xffA", "UTC", "00:00:00")
    assert gateway.rows("SHOW VARIABLES LIKE 'cleave_bounds'") == [("cleave_bounds", "OFF")]


def test_one_unknown_variable_leaves_the_others_set(gateway: Gateway) -> None:
    with closing(gateway.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET optimizer_whim = 3, SQL_SELECT_LIMIT = 2")
        cursor.execute("SELECT id FROM visits ORDER BY id")
        assert cursor.fetchall() == ((0,), (1,))
