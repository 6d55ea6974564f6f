// Prints what PostgreSQL's JDBC driver answers as JSON: rows, prepared statements, fetches, and metadata.
import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;

class Jdbc {
    static final String QUERY = "SELECT * FROM stays ORDER BY id";
    static final String PREPARED =
        "SELECT id, name, bill, day FROM stays WHERE id > ? AND ward <> ? AND bill > ? ORDER BY id";

    static String quoted(Object value) {
        if (value == null) return "null";
        String text = value.toString();
        var out = new StringBuilder("\"");
        for (char c : text.toCharArray())
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 32) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        return out.append('"').toString();
    }

    static String read(ResultSet rows, String... names) throws SQLException {
        var found = new StringJoiner(",", "[", "]");
        while (rows.next()) {
            var row = new StringJoiner(",", "[", "]");
            if (names.length == 0)
                for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) row.add(quoted(rows.getString(i)));
            for (String name : names) row.add(quoted(rows.getString(name)));
            found.add(row.toString());
        }
        return found.toString();
    }

    static String typed(ResultSet rows) throws SQLException {
        var found = new StringJoiner(",", "[", "]");
        var data = rows.getMetaData();
        for (int i = 1; i <= data.getColumnCount(); i++)
            found.add("[" + quoted(data.getColumnLabel(i)) + "," + quoted(data.getColumnTypeName(i)) + ","
                + data.getColumnType(i) + "," + data.getPrecision(i) + "," + data.getScale(i) + "]");
        return found.toString();
    }

    static String each(Connection connection) throws SQLException {
        var found = new StringJoiner(",", "[", "]");
        var values = new LinkedHashMap<String, Object>();
        values.put("id = ?", 4L);
        values.put("num = ?", -88888892);
        values.put("small < ?", (short) -4000);
        values.put("ward = ? AND id < 5", "A");
        values.put("insured = ? AND id < 5", true);
        values.put("bill = ?", new BigDecimal("22677.00"));
        values.put("level < ?", -0.005);
        values.put("ratio < ?", -1.75f);
        values.put("day = ?", LocalDate.of(2001, 1, 16));
        values.put("clock = ?", LocalTime.of(4, 30, 15, 250_000_000));
        values.put("seen = ?", LocalDateTime.of(1970, 1, 1, 0, 4, 5, 1000));
        values.put("zoned = ?", OffsetDateTime.of(2024, 6, 19, 0, 59, 59, 500_000_000, ZoneOffset.UTC));
        for (var pair : values.entrySet()) {
            var statement = connection.prepareStatement("SELECT id FROM stays WHERE " + pair.getKey());
            statement.setObject(1, pair.getValue());
            found.add(read(statement.executeQuery()));
        }
        var nulls = connection.prepareStatement("SELECT id FROM stays WHERE id < 3 AND ward IS NOT DISTINCT FROM ?");
        nulls.setNull(1, Types.VARCHAR);
        return found.add(read(nulls.executeQuery())).toString();
    }

    public static void main(String[] options) throws SQLException {
        var env = System.getenv();
        var address = "jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE");
        var given = new Properties();
        given.put("user", env.get("PGUSER"));
        given.put("password", env.getOrDefault("PGPASSWORD", ""));
        for (String option : options) given.put(option.split("=")[0], option.split("=")[1]);
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        var found = new LinkedHashMap<String, String>();
        try (var connection = DriverManager.getConnection(address, given)) {
            found.put("query", read(connection.createStatement().executeQuery(QUERY)));
            var prepared = connection.prepareStatement(PREPARED);
            for (int i = 0; i < 7; i++) { // from the fifth run on the server keeps it, and rows are binary
                prepared.setInt(1, 1);
                prepared.setString(2, "A' \\");
                prepared.setBigDecimal(3, new BigDecimal("12.5"));
                found.put("prepared", read(prepared.executeQuery()));
            }
            var all = connection.prepareStatement(QUERY);
            for (int i = 0; i < 6; i++) found.put("binary", read(all.executeQuery()));
            found.put("typed", typed(all.executeQuery()));
            found.put("each", each(connection));
            connection.setAutoCommit(false);
            var fetched = connection.createStatement();
            fetched.setFetchSize(5);
            found.put("fetched", read(fetched.executeQuery("SELECT id, bill FROM stays ORDER BY id")));
            connection.commit();
            connection.setReadOnly(true);
            connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            found.put("isolation", String.valueOf(connection.getTransactionIsolation()));
            connection.rollback();
            connection.setAutoCommit(true);
            for (String sql : List.of("SELECT nothing FROM stays", "SELECT 1 FROM nosuch", "SELEC 1"))
                try (var statement = connection.createStatement()) {
                    statement.executeQuery(sql);
                } catch (SQLException error) {
                    found.merge("errors", quoted(error.getSQLState()), (one, other) -> one + "," + other);
                }
            found.put("errors", "[" + found.get("errors") + "]");
            found.put("valid", String.valueOf(connection.isValid(5)));
            DatabaseMetaData data = connection.getMetaData();
            found.put("product", quoted(data.getDatabaseProductName()));
            String[] kinds = {"TABLE", "VIEW"};
            found.put("tables", read(data.getTables(null, "public", "%", kinds), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"));
            found.put("columns", read(data.getColumns(null, "public", "stays", "%"),
                "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "IS_NULLABLE", "ORDINAL_POSITION"));
            found.put("keys", read(data.getPrimaryKeys(null, "public", "stays"), "COLUMN_NAME", "KEY_SEQ"));
            found.put("imported", read(data.getImportedKeys(null, "public", "stays"), "FKCOLUMN_NAME"));
            found.put("indexes", read(data.getIndexInfo(null, "public", "stays", false, true), "COLUMN_NAME"));
            found.put("best", read(data.getBestRowIdentifier(null, "public", "stays", 0, true), "COLUMN_NAME"));
            found.put("schemas", read(data.getSchemas(), "TABLE_SCHEM"));
            found.put("catalogs", read(data.getCatalogs(), "TABLE_CAT"));
            found.put("tableTypes", read(data.getTableTypes(), "TABLE_TYPE"));
            found.put("privileges", read(data.getTablePrivileges(null, "public", "nosuch")));
            found.put("functions", read(data.getFunctions(null, "public", "%")));
            found.put("schema", quoted(connection.getSchema()));
        }
        var parts = new StringJoiner(",", "{", "}");
        found.forEach((name, value) -> parts.add(quoted(name) + ":" + value));
        System.out.println(parts);
    }
}
