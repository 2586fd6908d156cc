use super::*;
use crate::pg::copy::Format;

/// The rows of a text that comes in pieces of so many bytes.
fn rows(format: &Format, text: &str, piece: usize) -> Result<Vec<Vec<Option<String>>>, String> {
    let mut found = Vec::new();
    let mut each = |values: &[Vec<u8>], nulls: &[bool]| {
        let row = values
            .iter()
            .zip(nulls)
            .map(|(value, null)| (!null).then(|| String::from_utf8_lossy(value).into_owned()));
        found.push(row.collect());
        Ok(())
    };
    let mut reader = Rows::new(format.clone());
    for bytes in text.as_bytes().chunks(piece) {
        reader.push::<String>(bytes, &mut each)?;
    }
    reader.finish::<String>(&mut each)?;
    Ok(found)
}

fn check(format: &Format, text: &str, wanted: &[&[Option<&str>]]) {
    let wanted: Vec<Vec<Option<String>>> =
        wanted.iter().map(|row| row.iter().map(|value| value.map(str::to_string)).collect()).collect();
    for piece in [1, 2, 3, 5, 1000] {
        assert_eq!(rows(format, text, piece).as_ref(), Ok(&wanted), "{text:?} in pieces of {piece}");
    }
}

#[test]
fn rows_of_text() {
    let text = Format::of_options(&[], true).unwrap();
    check(&text, "a\tb\n\\N\t\n", &[&[Some("a"), Some("b")], &[None, Some("")]]);
    check(
        &text,
        "a\\tb\\n\\\\N\\x41\\101\t\\\\N\r\nlast",
        &[&[Some("a\tb\n\\NAA"), Some("\\N")], &[Some("last")]],
    );
    check(&text, "a\\\nb\n\\.\n", &[&[Some("a\nb")]]);
}

#[test]
fn rows_of_csv() {
    let csv = Format::of_options(&[("format".into(), "csv".into())], true).unwrap();
    check(
        &csv,
        "a,\"b,\"\"c\"\"\nd\",\n,\"\"\n",
        &[&[Some("a"), Some("b,\"c\"\nd"), None], &[None, Some("")]],
    );
    check(&csv, "1,2\r\n3,4", &[&[Some("1"), Some("2")], &[Some("3"), Some("4")]]);
    let other = [("format", "csv"), ("delimiter", ";"), ("quote", "'"), ("escape", "\\"), ("null", "NULL")];
    let other: Vec<(String, String)> = other.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
    let other = Format::of_options(&other, true).unwrap();
    check(&other, "'it\\'s;';NULL;'NULL';\n", &[&[Some("it's;"), None, Some("NULL"), Some("")]]);
    assert!(rows(&csv, "a,\"b\n", 1).is_err());
}

#[test]
fn a_backslash_and_a_point_end_the_rows() {
    let text = Format::of_options(&[], true).unwrap();
    check(&text, "a\n\\.\nb\tc\td\n", &[&[Some("a")]]);
    check(&text, "a\n\\.", &[&[Some("a")]]);
    let csv = Format::of_options(&[("format".into(), "csv".into())], true).unwrap();
    check(&csv, "a\r\n\\.\r\nb,\"c\n", &[&[Some("a")]]);
    check(&csv, "\"\\.\"\n\"x\n\\.\n\"\nb\n", &[&[Some("\\.")], &[Some("x\n\\.\n")], &[Some("b")]]);
}

#[test]
fn options_that_cannot_be() {
    for (options, code) in [
        (&[("format", "csv"), ("format", "csv")][..], "42601"),
        (&[("header", "true"), ("header", "false")], "42601"),
        (&[("nosuch", "true")], "42601"),
        (&[("header", "perhaps")], "42601"),
        (&[("format", "csv"), ("delimiter", "\"")], "22023"),
        (&[("format", "csv"), ("delimiter", ";"), ("quote", ";")], "22023"),
        (&[("format", "csv"), ("null", "a,b")], "22023"),
        (&[("format", "csv"), ("null", "a\"b")], "22023"),
        (&[("null", "a\nb")], "22023"),
        (&[("delimiter", "x")], "22023"),
        (&[("delimiter", "||")], "22023"),
        (&[("quote", "'")], "0A000"),
        (&[("format", "binary"), ("header", "true")], "0A000"),
        (&[("format", "binary"), ("delimiter", ",")], "0A000"),
        (&[("encoding", "latin1")], "0A000"),
    ] {
        let options: Vec<(String, String)> =
            options.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        let fault = format!("{:?}", Format::of_options(&options, true));
        assert!(fault.contains(&format!("code: \"{code}\"")), "{options:?}: {fault}");
    }
    let matched = [("header".to_string(), "match".to_string())];
    assert!(Format::of_options(&matched, true).is_ok());
    assert!(Format::of_options(&matched, false).is_err(), "there is nothing to match");
}
