use super::regular;

#[test]
fn a_pattern_is_of_the_whole_text() {
    assert_eq!(regular("a%_|b", '\\'), "^(?s:a.*.|b)$");
    assert_eq!(regular("1.5$^", '\\'), "^(?s:1\\.5\\$\\^)$");
    assert_eq!(regular("[a-z_%]+\\%", '\\'), "^(?s:[a-z_%]+\\%)$");
}
