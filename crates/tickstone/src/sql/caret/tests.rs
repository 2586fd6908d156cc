use super::*;

#[test]
fn the_caret_stands_below_the_character() {
    assert_eq!(pointed("SELECT x\nFROM\tt", 2, 6), "\n 2 | FROM\tt\n   |     \t^");
    assert_eq!(pointed("SELECT", 1, 100), "\n 1 | SELECT\n   |       ^");
    assert_eq!(pointed("SELECT", 0, 1), "");
    assert_eq!(pointed("SELECT", 9, 1), "");
    let error = QueryError::request("no").hint("yes");
    assert_eq!(describe("x", &error), "error: no\nhint: yes");
}
