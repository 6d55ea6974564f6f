// Prints what MariaDB's JDBC driver answers as JSON: rows of a query, of a prepared statement, and of metadata.
import java.math.BigDecimal;
import java.sql.*;
import java.util.StringJoiner;

class Rows {
    static String quoted(String text) {
        return text == null ? "null" : '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
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

    public static void main(String[] options) throws SQLException {
        var address = "jdbc:mariadb://127.0.0.1:" + System.getenv("PORT") + "/cleave?" + options[0];
        try (var connection = DriverManager.getConnection(address, "owner", System.getenv("PASSWORD"))) {
            var prepared = connection.prepareStatement(System.getenv("PREPARED"));
            prepared.setInt(1, 7);
            prepared.setString(2, "A' \\");
            prepared.setBigDecimal(3, new BigDecimal("12.5"));
            DatabaseMetaData data = connection.getMetaData();
            System.out.printf("{\"query\":%s,\"prepared\":%s,\"tables\":%s,\"columns\":%s,\"keys\":%s,\"imported\":%s,\"indexes\":%s,\"catalogs\":%s}%n",
                read(connection.createStatement().executeQuery(System.getenv("QUERY"))),
                read(prepared.executeQuery()),
                read(data.getTables("cleave", null, "%", new String[] {"TABLE", "VIEW"}), "TABLE_CAT", "TABLE_NAME", "TABLE_TYPE"),
                read(data.getColumns("cleave", null, "visits", "%"), "COLUMN_NAME", "DATA_TYPE", "DECIMAL_DIGITS", "IS_NULLABLE"),
                read(data.getPrimaryKeys("cleave", null, "visits")),
                read(data.getImportedKeys("cleave", null, "visits")),
                read(data.getIndexInfo("cleave", null, "visits", false, true)),
                read(data.getCatalogs()));
        }
    }
}
