//! Arrays as text: `{1,NULL,"a b"}` ("Arrays", in PostgreSQL's manual), and `[1, null, "a b"]`.

/// The elements of an array of one dimension, NULL as `None`; `None` where the text is none.
pub fn array_elements(text: &str) -> Option<Vec<Option<String>>> {
    let text = text.trim();
    let braces = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inside = braces.or_else(|| text.strip_prefix('[')?.strip_suffix(']'))?;
    let mut found = Vec::new();
    let mut rest = inside.trim_start().chars().peekable();
    if rest.peek().is_none() {
        return Some(found);
    }
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let mut element = String::new();
        if rest.next_if_eq(&'"').is_some() {
            loop {
                match rest.next()? {
                    '"' => break,
                    '\\' => element.push(rest.next()?),
                    plain => element.push(plain),
                }
            }
            while rest.next_if(|c| c.is_whitespace()).is_some() {}
            found.push(Some(element));
        } else {
            while let Some(c) = rest.next_if(|c| *c != ',') {
                match c {
                    '{' | '}' | '[' | ']' | '"' => return None,
                    '\\' => element.push(rest.next()?),
                    plain => element.push(plain),
                }
            }
            let element = element.trim_end();
            if element.is_empty() {
                return None;
            }
            found.push((!element.eq_ignore_ascii_case("null")).then(|| element.to_string()));
        }
        match rest.next() {
            None => return Some(found),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::array_elements as elements;

    #[test]
    fn elements_of_texts() {
        let some = |texts: &[&str]| Some(texts.iter().map(|text| Some((*text).to_string())).collect());
        assert_eq!(elements("{}"), Some(vec![]));
        assert_eq!(elements(" { } "), Some(vec![]));
        assert_eq!(elements("{1,2 , 3}"), some(&["1", "2", "3"]));
        assert_eq!(elements("[1.5, \"x\"]"), some(&["1.5", "x"]));
        assert_eq!(elements(r#"{"a b","","NULL","q\"\\"}"#), some(&["a b", "", "NULL", "q\"\\"]));
        assert_eq!(elements("{null,NULL}"), Some(vec![None, None]));
        for wrong in ["", "1", "{", "{1", "{1,}", "{,1}", r#"{"a}"#, "{{1},{2}}", r#"{a"b}"#, r#"{"a"b}"#] {
            assert_eq!(elements(wrong), None, "{wrong}");
        }
    }
}
