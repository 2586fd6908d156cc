//! What the name of a column says of its values.

/// Names of the designated timestamp, the likeliest first.
const TIMESTAMP_NAMES: [&str; 9] =
    ["ts", "timestamp", "time", "datetime", "date_time", "event_time", "t", "date", "local_timestamp"];

/// Last words of names whose values are keys or codes: text or whole numbers, whatever they look like.
const CODE_WORDS: [&str; 27] = [
    "symbol",
    "sym",
    "ticker",
    "instrument",
    "side",
    "exchange",
    "venue",
    "action",
    "cond",
    "condition",
    "conditions",
    "flag",
    "flags",
    "code",
    "codes",
    "cusip",
    "isin",
    "figi",
    "sedol",
    "wkn",
    "ric",
    "mic",
    "lei",
    "mpid",
    "id",
    "ids",
    "uuid",
];

/// The first of them are an instrument's, which some venues number.
const SERIES_WORDS: usize = 4;

/// Those at the end say which thing it is, not of what kind: their text is no symbol for that.
const KEY_WORDS: [&str; 3] = ["id", "ids", "uuid"];

/// Names whose text is a symbol at any number of distinct values, beside those of codes.
const SYMBOL_NAMES: [&str; 11] = [
    "market",
    "currency",
    "pair",
    "product",
    "underlying",
    "base",
    "quote",
    "feed",
    "status",
    "type",
    "asset",
];

/// Names whose whole numbers are prices, so that a later decimal fits.
const PRICE_NAMES: [&str; 9] = ["bid", "ask", "open", "high", "low", "close", "vwap", "mid", "strike"];

/// Words that say so in any name: `bid_price`, `ask_px_00`.
const PRICE_WORDS: [&str; 2] = ["price", "px"];

/// Where a name stands among those of designated timestamps, the likeliest 0.
pub fn timestamp_rank(name: &str) -> Option<usize> {
    TIMESTAMP_NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a name is a time's: `ts`, `trade_time`, `TimeStamp`, `created_at`, …
pub fn is_time_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    !is_code_name(name)
        && (timestamp_rank(&lower).is_some()
            || lower.contains("timestamp")
            || lower.ends_with("time")
            || lower.starts_with("time_")
            || lower.ends_with("_ts")
            || lower.ends_with("_at")
            || lower.starts_with("ts_"))
}

/// Whether a name says that its numbers are times, also times to come.
pub(super) fn says_timestamp(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("timestamp") || name.contains("datetime") || words(&name).iter().any(|word| word == "ts")
}

/// Whether a name is one of keys or codes.
pub(super) fn is_code_name(name: &str) -> bool {
    last_word(name).is_some_and(|word| CODE_WORDS.contains(&&*word))
}

/// Whether the text of a column of this name is symbols.
pub(super) fn is_symbol_name(name: &str) -> bool {
    SYMBOL_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
        || is_code_name(name) && last_word(name).is_some_and(|word| !KEY_WORDS.contains(&&*word))
}

/// Whether a name is an instrument's.
pub(super) fn is_series_name(name: &str) -> bool {
    CODE_WORDS[..SERIES_WORDS].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a name is a price's.
pub(super) fn is_price_name(name: &str) -> bool {
    PRICE_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
        || words(name).iter().any(|word| PRICE_WORDS.contains(&&**word))
}

fn last_word(name: &str) -> Option<String> {
    words(name).pop()
}

/// The words of a name in lower case: between other characters than letters and digits, and where a capital follows a
/// small letter.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for character in name.chars() {
        if !character.is_alphanumeric() || before.is_lowercase() && character.is_uppercase() {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_their_words() {
        for (name, is_code) in [
            ("id", true),
            ("order_id", true),
            ("orderId", true),
            ("SYM", true),
            ("cond", true),
            ("stop_code", true),
            ("bid", false),
            ("exchange_time", false),
            ("mid", false),
            ("idle", false),
            ("", false),
        ] {
            assert_eq!(is_code_name(name), is_code, "{name}");
        }
        for (name, is_time) in [
            ("ts", true),
            ("T", true),
            ("trade_time", true),
            ("eventTime", true),
            ("ts_recv", true),
            ("created_at", true),
            ("ts_id", false),
            ("time_id", false),
            ("times", false),
            ("tick", false),
        ] {
            assert_eq!(is_time_name(name), is_time, "{name}");
        }
        for (name, is_price) in [
            ("price", true),
            ("bid_px_00", true),
            ("askPrice", true),
            ("bid", true),
            ("bid_sz_00", false),
            ("pxid", false),
        ] {
            assert_eq!(is_price_name(name), is_price, "{name}");
        }
        assert!(is_symbol_name("side") && is_symbol_name("base") && !is_symbol_name("order_id"));
    }
}
