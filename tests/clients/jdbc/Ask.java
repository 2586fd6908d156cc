import java.sql.*;
import java.util.ArrayList;
import java.util.List;

/**
 * JDBC as several users: {@code java -cp postgresql.jar Ask.java URL USER PASSWORD SQL …} opens a connection for each
 * four words and prints a line for it: "rows" and the first column, or the SQLSTATE and the message of the error.
 */
public class Ask {
    public static void main(String[] words) {
        for (int at = 0; at + 3 < words.length; at += 4) {
            System.out.println(answer(words[at], words[at + 1], words[at + 2], words[at + 3]).replace("\n", " "));
        }
    }

    static String answer(String url, String user, String password, String sql) {
        try (Connection db = DriverManager.getConnection(url, user, password);
                ResultSet rows = db.createStatement().executeQuery(sql)) {
            List<String> found = new ArrayList<>();
            while (rows.next()) found.add(rows.getString(1));
            return "rows\t" + String.join(",", found);
        } catch (SQLException e) {
            return e.getSQLState() + "\t" + e.getMessage();
        }
    }
}
