import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;

/** JDBC at the PostgreSQL port. {@code java -cp postgresql.jar Trades.java PORT}, in this folder, prints a line for each check. */
public class Trades {
    static void tablesRowsAndQuestions(String url) throws SQLException {
        try (Connection db = DriverManager.getConnection(url, "admin", "quest"); Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)");
            try (PreparedStatement insert = db.prepareStatement("INSERT INTO trades VALUES (?, ?, ?, ?)")) {
                for (int n = 0; n < 3; n++) {
                    insert.setObject(1, LocalDateTime.of(2024, 8, 8, 9, 30, 20 * n));
                    insert.setString(2, "BTC");
                    insert.setDouble(3, 61500.5 + n);
                    insert.setLong(4, 1);
                    insert.addBatch();
                }
                insert.executeBatch();
            }
            String ask = "SELECT time_bucket('1 minute', ts) AS minute, vwap(price, size) AS vwap FROM trades"
                + " WHERE symbol = ? AND ts >= ? GROUP BY minute ORDER BY minute";
            try (PreparedStatement bars = db.prepareStatement(ask)) {
                bars.setString(1, "BTC");
                bars.setObject(2, LocalDateTime.of(2024, 8, 8, 0, 0));
                ResultSet rows = bars.executeQuery();
                same(rows.next(), true);
                same(rows.getObject("minute", LocalDateTime.class), LocalDateTime.of(2024, 8, 8, 9, 30));
                same(rows.getDouble("vwap"), 61501.5);
                same(rows.next(), false);
            }
        }
    }

    /** Text and binary of both directions, and inserts that the driver joins. */
    static final List<String> WAYS = List.of(
        "", "?prepareThreshold=1", "?prepareThreshold=-1", "?binaryTransfer=false",
        "?preferQueryMode=extendedForPrepared", "?reWriteBatchedInserts=true");
    static final LocalDateTime AT = LocalDateTime.of(2024, 8, 8, 9, 30);
    static final UUID ID = UUID.fromString("67e55044-10b1-426f-9247-bb680e5fe0c8");

    static void everySetterAndGetter(String url) throws SQLException {
        for (String way : WAYS) {
            try (Connection db = open(url + way)) {
                run(db, "DROP TABLE IF EXISTS everything");
                run(db, "CREATE TABLE everything (ts TIMESTAMP, b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT,"
                    + " f8 DOUBLE, n DECIMAL(20,4), v VARCHAR, s SYMBOL, d DATE, u UUID, y BINARY, a DOUBLE[], av VARCHAR[],"
                    + " seen TIMESTAMP) TIMESTAMP(ts)");
                String insert = "INSERT INTO everything VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
                try (PreparedStatement p = db.prepareStatement(insert)) {
                    for (int n = 0; n < 3; n++) {
                        Object[] row = row(n);
                        p.setTimestamp(1, Timestamp.valueOf((LocalDateTime) row[0]));
                        p.setBoolean(2, (Boolean) row[1]);
                        p.setByte(3, (Byte) row[2]);
                        p.setShort(4, (Short) row[3]);
                        p.setInt(5, (Integer) row[4]);
                        p.setLong(6, (Long) row[5]);
                        p.setFloat(7, (Float) row[6]);
                        p.setDouble(8, (Double) row[7]);
                        p.setBigDecimal(9, (BigDecimal) row[8]);
                        p.setString(10, (String) row[9]);
                        p.setString(11, (String) row[10]);
                        p.setDate(12, java.sql.Date.valueOf((LocalDate) row[11]));
                        p.setObject(13, row[12]);
                        p.setBytes(14, (byte[]) row[13]);
                        p.setArray(15, db.createArrayOf("float8", (Object[]) row[14]));
                        p.setArray(16, db.createArrayOf("text", (Object[]) row[15]));
                        p.setObject(17, row[16]);
                        same(p.executeUpdate(), 1);
                    }
                    // The same by setObject, and NULL by the types that programs give.
                    p.setObject(1, AT.plusSeconds(10));
                    Object[] row = row(1);
                    for (int n = 1; n < 14; n++) p.setObject(n + 1, row[n]);
                    p.setObject(15, new double[] {1.5});
                    p.setObject(16, new String[] {"x"});
                    p.setObject(17, OffsetDateTime.of(AT, ZoneOffset.UTC).withOffsetSameInstant(ZoneOffset.ofHours(5)));
                    same(p.executeUpdate(), 1);
                    int[] types = {Types.TIMESTAMP, Types.BOOLEAN, Types.TINYINT, Types.SMALLINT, Types.INTEGER, Types.BIGINT,
                        Types.REAL, Types.DOUBLE, Types.NUMERIC, Types.VARCHAR, Types.VARCHAR, Types.DATE, Types.OTHER,
                        Types.BINARY, Types.ARRAY, Types.ARRAY, Types.TIMESTAMP};
                    p.setObject(1, AT.plusSeconds(11), Types.TIMESTAMP);
                    for (int n = 1; n < 17; n++) p.setNull(n + 1, types[n]);
                    same(p.executeUpdate(), 1);
                    p.setObject(1, AT.plusSeconds(12));
                    for (int n = 1; n < 17; n++) p.setNull(n + 1, Types.NULL);
                    p.setBinaryStream(14, new ByteArrayInputStream(new byte[] {1, 2, 3}), 3);
                    p.setCharacterStream(10, new StringReader("stream"), 6);
                    same(p.executeUpdate(), 1);
                }
                try (PreparedStatement p = db.prepareStatement("SELECT * FROM everything ORDER BY ts")) {
                    for (int again = 0; again < 7; again++) readEverything(way, p.executeQuery());
                }
                for (int n = 0; n < 14; n++) {
                    String name = List.of("ts", "b", "i1", "i2", "i4", "i8", "f4", "f8", "n", "v", "s", "d", "u", "y").get(n);
                    try (PreparedStatement p = db.prepareStatement("SELECT count(*) FROM everything WHERE " + name + " = ?")) {
                        p.setObject(1, row(1)[n]);
                        same(one(p) > 0, true, way + " WHERE " + name + " = " + row(1)[n]);
                    }
                }
            }
        }
    }

    static Object[] row(int n) {
        return switch (n) {
            case 0 -> new Object[] {LocalDateTime.of(1677, 9, 22, 0, 0), true, Byte.MIN_VALUE, Short.MIN_VALUE, Integer.MIN_VALUE,
                Long.MIN_VALUE, -0.5f, -1.7976931348623157e308, new BigDecimal("-9999999999999999.9999"), "", "",
                LocalDate.of(1700, 1, 1), new UUID(0, 0), new byte[0], new Double[0], new String[0],
                LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_000)};
            case 1 -> new Object[] {AT.plusNanos(123_456_000), false, (byte) 1, (short) 1, 1, 1L, 1.5f, 0.1,
                new BigDecimal("1.5000"), "zwölf 'Ω' \\ 🚀\n", "BTC", LocalDate.of(2024, 2, 29), ID, new byte[] {0, -1, '\\'},
                new Double[] {1.5, null, Double.NaN}, new String[] {"a", null, "", "q\"\\,{}"}, AT};
            default -> new Object[] {LocalDateTime.of(2262, 4, 11, 23, 47, 16, 854_775_000), true, Byte.MAX_VALUE, Short.MAX_VALUE,
                Integer.MAX_VALUE, Long.MAX_VALUE, Float.MAX_VALUE, Double.MIN_VALUE, new BigDecimal("9999999999999999.9999"),
                "NULL", "null", LocalDate.of(2262, 1, 1), new UUID(-1, -1), new byte[] {1}, new Double[] {0.0},
                new String[] {"NULL"}, LocalDateTime.of(1970, 1, 1, 0, 0)};
        };
    }

    static void readEverything(String way, ResultSet rows) throws SQLException {
        for (int n : new int[] {0, 1, -1, -2, -3, 2}) {
            same(rows.next(), true, way);
            if (n == -2 || n == -3) {
                for (int column = 2; column <= 17; column++) {
                    boolean streamed = n == -3 && (column == 10 || column == 14);
                    same(rows.getObject(column) == null, !streamed, way + " column " + column);
                    same(rows.wasNull(), !streamed);
                }
                if (n == -3) {
                    same(rows.getString(10), "stream");
                    same(Arrays.equals(rows.getBytes(14), new byte[] {1, 2, 3}), true);
                }
                continue;
            }
            Object[] row = row(n == -1 ? 1 : n);
            if (n >= 0) same(rows.getTimestamp(1).toLocalDateTime(), row[0], way);
            if (n >= 0) same(rows.getObject(1, LocalDateTime.class), row[0], way);
            same(rows.getBoolean(2), row[1]);
            same(rows.getByte(3), row[2]);
            same(rows.getShort(4), row[3]);
            same(rows.getInt(5), row[4]);
            same(rows.getLong(6), row[5]);
            same(rows.getFloat(7), row[6], way);
            same(rows.getDouble(8), row[7], way);
            same(rows.getBigDecimal(9), row[8], way);
            same(rows.getString(10), row[9], way);
            same(rows.getString(11), row[10], way);
            same(rows.getDate(12).toLocalDate(), row[11], way);
            same(rows.getObject(13), row[12], way);
            same(Arrays.equals(rows.getBytes(14), (byte[]) row[13]), true, way);
            if (n >= 0) {
                same(Arrays.asList((Object[]) rows.getArray(15).getArray()), Arrays.asList((Object[]) row[14]), way);
                same(Arrays.asList((Object[]) rows.getArray(16).getArray()), Arrays.asList((Object[]) row[15]), way);
            }
            same(rows.getObject(17, LocalDateTime.class), row[16], way);
        }
        same(rows.next(), false);
    }

    /** The driver writes a Timestamp with the offset of the machine; a column without zones holds what the clock showed. */
    static void timestampsOfAnotherZone(String url) throws SQLException {
        TimeZone before = TimeZone.getDefault();
        TimeZone.setDefault(TimeZone.getTimeZone("America/New_York"));
        try {
            for (String way : WAYS) {
                try (Connection db = open(url + way)) {
                    run(db, "DROP TABLE IF EXISTS zones");
                    run(db, "CREATE TABLE zones (ts TIMESTAMP, x INT) TIMESTAMP(ts)");
                    try (PreparedStatement p = db.prepareStatement("INSERT INTO zones VALUES (?, ?)")) {
                        p.setTimestamp(1, Timestamp.valueOf(AT));
                        p.setInt(2, 1);
                        p.executeUpdate();
                        p.setObject(1, AT.plusDays(1));
                        p.setInt(2, 2);
                        p.executeUpdate();
                    }
                    ResultSet rows = db.createStatement().executeQuery("SELECT ts, CAST(ts AS VARCHAR) FROM zones ORDER BY x");
                    for (int n = 0; n < 2; n++) {
                        rows.next();
                        same(rows.getTimestamp(1), Timestamp.valueOf(AT.plusDays(n)), way);
                        same(rows.getObject(1, LocalDateTime.class), AT.plusDays(n), way);
                        same(rows.getString(2).contains("09:30:00"), true, way + rows.getString(2));
                    }
                }
            }
        } finally {
            TimeZone.setDefault(before);
        }
    }

    /** What the driver says the type of: LocalDateTime, OffsetDateTime, LocalDate, LocalTime. */
    static void typesThatAreSaid(String url) throws SQLException {
        for (String way : WAYS) {
            try (Connection db = open(url + way)) {
                table(db, "said", 5);
                String count = "SELECT count(*) FROM said WHERE ";
                for (int n = 0; n < 7; n++) {
                    same(with(db, count + "ts > ? - interval '1 hour'", AT), 5L, way);
                    same(with(db, count + "ts >= ? + interval '1 hour'", AT), 0L, way);
                    same(with(db, count + "ts >= ?", AT.atOffset(ZoneOffset.ofHours(1))), 5L, way);
                    same(with(db, count + "ts >= ?", AT.atOffset(ZoneOffset.ofHours(-1))), 0L, way);
                    same(with(db, count + "ts < ?", AT.toLocalDate()), 0L, way);
                    same(with(db, count + "ts < ? + interval '1 day'", AT.toLocalDate()), 5L, way);
                    same(with(db, count + "TIME '09:30:00' = ?", AT.toLocalTime()), 5L, way);
                }
            }
        }
    }

    /** The one number of a query with a value. */
    static long with(Connection db, String sql, Object value) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            statement.setObject(1, value);
            return one(statement);
        }
    }

    static void nanosecondsAreCut(String url) throws SQLException {
        for (String way : WAYS) {
            try (Connection db = open(url + way)) {
                run(db, "DROP TABLE IF EXISTS nanos");
                run(db, "CREATE TABLE nanos (ts TIMESTAMP, x INT) TIMESTAMP(ts)");
                run(db, "INSERT INTO nanos VALUES ('2024-08-08T09:30:00.123456789', 1)");
                ResultSet rows = db.createStatement().executeQuery("SELECT ts FROM nanos");
                rows.next();
                int nanos = rows.getTimestamp(1).getNanos();
                same(nanos == 123_456_000 || nanos == 123_456_789, true, way + " " + nanos);
            }
        }
    }

    static void batches(String url) throws SQLException {
        for (String way : WAYS) {
            try (Connection db = open(url + way)) {
                table(db, "batched", 0);
                try (PreparedStatement p = db.prepareStatement("INSERT INTO batched VALUES (?, ?, ?, ?)")) {
                    for (int n = 0; n < 1000; n++) {
                        p.setObject(1, AT.plusSeconds(n));
                        p.setString(2, "S" + n % 3);
                        p.setDouble(3, n / 4.0);
                        if (n % 10 == 0) p.setNull(4, Types.BIGINT);
                        else p.setLong(4, n);
                        p.addBatch();
                    }
                    same(p.executeBatch().length, 1000);
                    same(one(db, "SELECT count(*) FROM batched"), 1000L, way);
                    same(one(db, "SELECT sum(size) FROM batched"), 499500L - 49500L, way);
                    for (int n = 0; n < 3; n++) {
                        if (n < 2) p.setObject(1, AT);
                        else p.setNull(1, Types.TIMESTAMP);
                        p.setString(2, "BAD");
                        p.setDouble(3, 1);
                        p.setLong(4, n);
                        p.addBatch();
                    }
                    db.setAutoCommit(false);
                    try {
                        p.executeBatch();
                        throw new AssertionError("a row without a time was taken");
                    } catch (BatchUpdateException e) {
                        same(e.getSQLState(), "23502", way);
                    }
                    db.rollback();
                    same(one(db, "SELECT count(*) FROM batched"), 1000L, way);
                }
            }
        }
    }

    static void rowsByPieces(String url) throws SQLException {
        for (String way : WAYS) {
            try (Connection db = open(url + way)) {
                db.setAutoCommit(false);
                try (Statement a = db.createStatement(); Statement b = db.createStatement()) {
                    a.setFetchSize(100);
                    b.setFetchSize(7);
                    ResultSet first = a.executeQuery("SELECT x, x / 2.0 FROM generate_series(1, 5000) AS s(x)");
                    ResultSet second = b.executeQuery("SELECT x FROM generate_series(1, 5000) AS s(x)");
                    long sum = 0;
                    while (first.next() && second.next()) sum += first.getLong(1) + second.getLong(1);
                    same(sum, 5000L * 5001L, way);
                    if (way.contains("preferQueryMode")) continue; // simple queries have no limits of rows
                    a.setMaxRows(10);
                    ResultSet few = a.executeQuery("SELECT x FROM generate_series(1, 5000) AS s(x)");
                    int count = 0;
                    while (few.next()) count++;
                    same(count, 10, way);
                }
                db.commit();
            }
        }
    }

    static void transactions(String url) throws SQLException {
        try (Connection db = open(url); Connection other = open(url)) {
            table(db, "banked", 5);
            db.setAutoCommit(false);
            run(db, "INSERT INTO banked VALUES ('2024-08-08', 'x', 1, 1)");
            same(one(other, "SELECT count(*) FROM banked"), 5L);
            db.rollback();
            run(db, "INSERT INTO banked VALUES ('2024-08-08', 'x', 1, 1)");
            db.commit();
            same(one(other, "SELECT count(*) FROM banked"), 6L);
            run(db, "INSERT INTO banked VALUES ('2024-08-08', 'x', 1, 1)");
            same(fails(db, "SELECT * FROM nosuch").getSQLState(), "42P01");
            same(fails(db, "SELECT 1").getSQLState(), "25P02");
            db.rollback();
            same(one(other, "SELECT count(*) FROM banked"), 6L);
            db.setReadOnly(true);
            same(one(db, "SELECT count(*) FROM banked"), 6L);
            same(fails(db, "INSERT INTO banked VALUES ('2024-08-08', 'x', 1, 1)").getSQLState(), "25006");
            db.rollback();
            db.setReadOnly(false);
            for (int level : new int[] {2, 4, 8}) {
                db.setTransactionIsolation(level);
                same(db.getTransactionIsolation() >= 2, true);
                same(one(db, "SELECT count(*) FROM banked"), 6L);
                db.commit();
            }
            try {
                Savepoint point = db.setSavepoint();
                run(db, "INSERT INTO banked VALUES ('2024-08-08', 'x', 1, 1)");
                db.rollback(point);
            } catch (SQLException e) {
                same(e.getSQLState(), "0A000", "a savepoint");
            }
            db.rollback();
            same(one(other, "SELECT count(*) FROM banked"), 6L);
        }
    }

    static void cancelling(String url) throws Exception {
        String endless = "SELECT sum(a.x * b.x) FROM generate_series(1, 1000000) AS a(x) CROSS JOIN generate_series(1, 1000000) AS b(x)";
        try (Connection db = open(url); Statement statement = db.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    Thread.sleep(300);
                    statement.cancel();
                } catch (Exception e) {
                    throw new AssertionError(e);
                }
            });
            canceller.start();
            same(fails(statement, endless).getSQLState(), "57014");
            canceller.join();
            statement.setQueryTimeout(1);
            same(fails(statement, endless).getSQLState(), "57014");
            statement.setQueryTimeout(0);
            same(one(db, "SELECT 1"), 1L);
        }
        try (Connection db = open(url + "?options=-c%20statement_timeout=200")) {
            same(fails(db, endless).getSQLState(), "57014");
        }
    }

    static void metadata(String url) throws SQLException {
        try (Connection db = open(url)) {
            table(db, "listed", 0);
            run(db, "DROP VIEW IF EXISTS watched");
            run(db, "CREATE VIEW watched AS SELECT ts, price FROM listed");
            run(db, "DROP TABLE IF EXISTS kinds");
            run(db, "CREATE TABLE kinds (ts TIMESTAMP, b BOOLEAN, i2 SMALLINT, i4 INT, n DECIMAL(18,4), d DATE, u UUID, y BINARY,"
                + " a DOUBLE[], f FLOAT) TIMESTAMP(ts)");
            DatabaseMetaData meta = db.getMetaData();
            same(meta.getDatabaseProductName(), "PostgreSQL");
            same(meta.getDatabaseMajorVersion() >= 12, true);
            same(names(meta.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME").containsAll(List.of("listed", "kinds")), true);
            same(names(meta.getTables(null, null, "listed", null), "TABLE_TYPE"), List.of("TABLE"));
            same(names(meta.getTables("qdb", null, "wat%", new String[] {"TABLE", "VIEW"}), "TABLE_TYPE"), List.of("VIEW"));
            same(names(meta.getTables(null, null, "nosuch", null), "TABLE_NAME"), List.of());
            same(names(meta.getColumns(null, "public", "listed", "%"), "COLUMN_NAME"), List.of("ts", "symbol", "price", "size"));
            same(names(meta.getColumns(null, null, "watched", null), "COLUMN_NAME"), List.of("ts", "price"));
            same(names(meta.getColumns(null, null, "kinds", null), "TYPE_NAME"),
                List.of("timestamp", "bool", "int2", "int4", "numeric", "date", "uuid", "bytea", "_float8", "float4"));
            same(names(meta.getColumns(null, null, "kinds", null), "DATA_TYPE"),
                List.of("93", "-7", "5", "4", "2", "91", "1111", "-2", "2003", "7"));
            same(names(meta.getColumns(null, null, "kinds", "n"), "COLUMN_SIZE"), List.of("18"));
            same(names(meta.getColumns(null, null, "kinds", "n"), "DECIMAL_DIGITS"), List.of("4"));
            same(names(meta.getColumns(null, null, "listed", null), "IS_NULLABLE"), List.of("NO", "YES", "YES", "YES"));
            same(names(meta.getColumns(null, null, "listed", null), "ORDINAL_POSITION"), List.of("1", "2", "3", "4"));
            same(names(meta.getTypeInfo(), "TYPE_NAME").containsAll(List.of("bool", "int8", "float8", "text", "timestamp")), true);
            same(names(meta.getSchemas(), "TABLE_SCHEM").contains("public"), true);
            same(names(meta.getSchemas(null, "pub%"), "TABLE_SCHEM"), List.of("public"));
            same(names(meta.getCatalogs(), "TABLE_CAT").contains("qdb"), true);
            same(names(meta.getTableTypes(), "TABLE_TYPE").contains("TABLE"), true);
            same(names(meta.getPrimaryKeys(null, "public", "listed"), "COLUMN_NAME"), List.of());
            same(names(meta.getIndexInfo(null, "public", "listed", false, true), "INDEX_NAME"), List.of());
            same(names(meta.getImportedKeys(null, "public", "listed"), "FK_NAME"), List.of());
            same(names(meta.getExportedKeys(null, "public", "listed"), "FK_NAME"), List.of());
            same(names(meta.getBestRowIdentifier(null, "public", "listed", 0, true), "COLUMN_NAME"), List.of());
            names(meta.getVersionColumns(null, "public", "listed"), "COLUMN_NAME");
            names(meta.getFunctions(null, null, "vwap"), "FUNCTION_NAME");
            names(meta.getFunctionColumns(null, null, "vwap", null), "COLUMN_NAME");
            names(meta.getProcedures(null, null, "%"), "PROCEDURE_NAME");
            names(meta.getTablePrivileges(null, "public", "listed"), "GRANTEE");
            names(meta.getColumnPrivileges(null, "public", "listed", "ts"), "GRANTEE");
            names(meta.getUDTs(null, null, "%", null), "TYPE_NAME");
            names(meta.getClientInfoProperties(), "NAME");
            same(meta.getUserName(), "admin");
            same(meta.getMaxColumnNameLength() > 0, true);
            meta.getSQLKeywords();
            same(meta.getDefaultTransactionIsolation() > 0, true);

            ResultSetMetaData columns = db.createStatement().executeQuery("SELECT *, 1 + 1 AS two FROM kinds").getMetaData();
            same(columns.getColumnTypeName(1) + columns.getColumnClassName(1), "timestampjava.sql.Timestamp");
            same(columns.getPrecision(5) + "," + columns.getScale(5), "18,4");
            same(columns.getColumnLabel(11), "two");
            for (int n = 1; n <= 11; n++) {
                columns.isNullable(n);
                columns.isAutoIncrement(n);
                columns.getTableName(n);
            }
            try (PreparedStatement p = db.prepareStatement("SELECT * FROM listed WHERE symbol = ? AND ts > ? AND price < ? LIMIT ?")) {
                ParameterMetaData asked = p.getParameterMetaData();
                same(asked.getParameterCount(), 4);
                same(List.of("text", "varchar").contains(asked.getParameterTypeName(1)), true);
                same(List.of(asked.getParameterTypeName(2), asked.getParameterTypeName(3), asked.getParameterTypeName(4)),
                    List.of("timestamp", "float8", "int8"));
                same(p.getMetaData().getColumnCount(), 4);
            }
        }
    }

    static void statesOfTheConnection(String url) throws SQLException {
        String options = "?ApplicationName=a%20program&options=-c%20statement_timeout=5000&currentSchema=public"
            + "&defaultRowFetchSize=100&assumeMinServerVersion=9.4&tcpKeepAlive=true&sslmode=prefer&targetServerType=primary";
        try (Connection db = open(url + options)) {
            same(db.isValid(5), true);
            same(text(db, "SHOW application_name"), "a program");
            same(text(db, "SHOW statement_timeout"), "5s");
            same(db.getCatalog() + "." + db.getSchema(), "qdb.public");
            db.setSchema("public");
            db.setClientInfo("ApplicationName", "renamed");
            same(text(db, "SHOW application_name"), "renamed");
            same(db.isReadOnly(), false);
            Statement statement = db.createStatement();
            same(statement.execute("SELECT 1; SELECT 'two', 2"), true);
            same(statement.getMoreResults(), true);
            ResultSet rows = statement.getResultSet();
            rows.next();
            same(rows.getString(1) + rows.getInt(2), "two2");
            statement.execute("DROP TABLE IF EXISTS nosuch");
            same(statement.getWarnings() != null && statement.getWarnings().getSQLState().equals("00000"), true, "a notice");
            same(statement.execute(""), false);
            same(text(db, "SELECT {fn concat('a', 'b')} || {d '2024-08-08'}").startsWith("ab2024-08-08"), true);
            db.unwrap(PGConnection.class).getNotifications();
            run(db, "DISCARD ALL");
        }
    }

    static void preparedWhileOthersChangeTheTable(String url) throws SQLException {
        for (String way : WAYS) {
            try (Connection db = open(url + way); Connection other = open(url)) {
                table(db, "changing", 5);
                try (PreparedStatement p = db.prepareStatement("SELECT * FROM changing WHERE size >= ? ORDER BY size")) {
                    for (int n = 0; n < 10; n++) {
                        if (n == 7) run(other, "ALTER TABLE changing ADD COLUMN venue VARCHAR");
                        p.setLong(1, 4);
                        ResultSet rows = p.executeQuery();
                        rows.next();
                        int columns = rows.getMetaData().getColumnCount(); // those that the driver was told, or those there are
                        same(columns == 4 || n >= 7 && columns == 5, true, way + " " + columns);
                        same(rows.getLong(4), 4L, way);
                    }
                    run(other, "DROP TABLE changing");
                    try {
                        p.executeQuery();
                        throw new AssertionError("the table is gone");
                    } catch (SQLException e) {
                        same(e.getSQLState(), "42P01", way);
                    }
                }
            }
        }
    }

    static void copies(String url) throws Exception {
        try (Connection db = open(url)) {
            table(db, "copied", 0);
            var copy = db.unwrap(PGConnection.class).getCopyAPI();
            same(copy.copyIn("COPY copied FROM STDIN WITH (FORMAT csv)", new StringReader("2024-08-08,A,1.5,2\n2024-08-09,,,\n")), 2L);
            StringWriter out = new StringWriter();
            same(copy.copyOut("COPY (SELECT * FROM copied ORDER BY ts) TO STDOUT WITH (FORMAT csv, HEADER)", out), 2L);
            same(out.toString(), "ts,symbol,price,size\n2024-08-08 00:00:00,A,1.5,2\n2024-08-09 00:00:00,,,\n");
            try {
                copy.copyIn("COPY copied FROM STDIN", new StringReader("2024-08-08\tA\tx\t1\n"));
                throw new AssertionError("a text became a price");
            } catch (SQLException e) {
                same(e.getSQLState(), "22P02");
            }
            same(one(db, "SELECT count(*) FROM copied"), 2L);
        }
    }

    static void errors(String url) throws SQLException {
        for (String way : WAYS) {
            try (Connection db = open(url + way)) {
                table(db, "wronged", 5);
                String[][] wrong = {
                    {"SELECT * FROM nosuch", "42P01", "15"}, {"SELECT nosuch FROM wronged", "42703", "8"}, {"SELEC 1", "42601", "1"},
                    {"SELECT nosuch(1)", "42883", "8"}, {"SELECT 1/0", "22012", ""}, {"SELECT CAST('x' AS INT)", "22P02", ""},
                    {"CREATE TABLE wronged (ts TIMESTAMP, x INT) TIMESTAMP(ts)", "42P07", ""},
                };
                for (String[] one : wrong) {
                    PSQLException e = (PSQLException) fails(db, one[0]);
                    same(e.getSQLState(), one[1], way + " " + one[0]);
                    if (!one[2].isEmpty()) same("" + e.getServerErrorMessage().getPosition(), one[2], way + " " + one[0]);
                    same(one(db, "SELECT count(*) FROM wronged"), 5L);
                }
            }
        }
    }

    /** What DBeaver sends when it connects, and when its tree and a table are opened. */
    static void dbeaver(String url) throws Exception {
        try (Connection db = open(url)) {
            table(db, "browsed", 5);
            Set<String> seen = new HashSet<>();
            for (String sql : Files.readString(Path.of("dbeaver.sql")).replaceAll("(?m)^--.*\n", "").split(";\n")) {
                if (sql.isBlank()) continue;
                try (PreparedStatement p = db.prepareStatement(sql.strip().replace(":schema", "?"))) {
                    if (sql.contains(":schema")) p.setLong(1, one(db, "SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'public'"));
                    if (p.execute()) {
                        ResultSet rows = p.getResultSet();
                        while (rows.next()) {
                            for (int n = 1; n <= rows.getMetaData().getColumnCount(); n++) {
                                if (List.of("relname", "attname", "nspname", "datname").contains(rows.getMetaData().getColumnName(n)))
                                    seen.add(rows.getString(n));
                                else rows.getObject(n);
                            }
                        }
                    }
                } catch (SQLException e) {
                    throw new AssertionError(sql.strip() + "\n" + e.getMessage(), e);
                }
            }
            same(seen.containsAll(List.of("qdb", "public", "browsed", "ts", "symbol", "price", "size")), true, seen.toString());
        }
    }

    interface Check {
        void run(String url) throws Exception;
    }

    public static void main(String[] arguments) {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/qdb";
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("tables, rows and questions", Trades::tablesRowsAndQuestions);
        checks.put("every setter and getter", Trades::everySetterAndGetter);
        checks.put("timestamps of another zone", Trades::timestampsOfAnotherZone);
        checks.put("types that are said", Trades::typesThatAreSaid);
        checks.put("nanoseconds are cut", Trades::nanosecondsAreCut);
        checks.put("batches", Trades::batches);
        checks.put("rows by pieces", Trades::rowsByPieces);
        checks.put("transactions", Trades::transactions);
        checks.put("cancelling", Trades::cancelling);
        checks.put("metadata", Trades::metadata);
        checks.put("states of the connection", Trades::statesOfTheConnection);
        checks.put("prepared while others change the table", Trades::preparedWhileOthersChangeTheTable);
        checks.put("copies", Trades::copies);
        checks.put("errors", Trades::errors);
        checks.put("DBeaver", Trades::dbeaver);
        checks.forEach((name, check) -> {
            String said = "ok";
            try {
                check.run(url);
            } catch (Throwable e) {
                StringWriter trace = new StringWriter();
                e.printStackTrace(new java.io.PrintWriter(trace));
                said = trace.toString().replace("\\", "\\\\").replace("\n", "\\n");
            }
            System.out.println(name + "\t" + said);
        });
    }

    static Connection open(String url) throws SQLException {
        return DriverManager.getConnection(url, "admin", "quest");
    }

    static void run(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute(sql);
        }
    }

    /** A table of trades with rows of sizes from 0. */
    static void table(Connection db, String name, int rows) throws SQLException {
        run(db, "DROP VIEW IF EXISTS watched");
        run(db, "DROP TABLE IF EXISTS " + name);
        run(db, "CREATE TABLE " + name + " (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)");
        for (int n = 0; n < rows; n++) run(db, "INSERT INTO " + name + " VALUES ('2024-08-08T09:30:0" + n + "', 'BTC', 1.5, " + n + ")");
    }

    static long one(Connection db, String sql) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            return one(statement);
        }
    }

    static long one(PreparedStatement statement) throws SQLException {
        ResultSet rows = statement.executeQuery();
        rows.next();
        return rows.getLong(1);
    }

    static String text(Connection db, String sql) throws SQLException {
        ResultSet rows = db.createStatement().executeQuery(sql);
        rows.next();
        return rows.getString(1);
    }

    static List<String> names(ResultSet rows, String column) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) found.add(rows.getString(column));
        return found;
    }

    static SQLException fails(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement()) {
            return fails(statement, sql);
        }
    }

    static SQLException fails(Statement statement, String sql) {
        try {
            statement.execute(sql);
        } catch (SQLException e) {
            return e;
        }
        throw new AssertionError("no error: " + sql);
    }

    static void same(Object found, Object wanted, String... where) {
        if (!Objects.equals(found, wanted)) throw new AssertionError(String.join(" ", where) + " " + found + ", not " + wanted);
    }
}
