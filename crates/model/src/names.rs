//! Names of tables and columns, which are told apart by more than the case of their letters.

/// Whether two names differ at most in the case of their letters, of whatever alphabet.
pub fn is_same_name(this: &str, that: &str) -> bool {
    this.eq_ignore_ascii_case(that)
        || !(this.is_ascii() && that.is_ascii()) && folded_name(this) == folded_name(that)
}

/// What names have in common that differ at most in the case of their letters ([`is_same_name`]), as a key of maps.
pub fn folded_name(name: &str) -> String {
    name.to_lowercase()
}
