//! The comparison of a CRC-32C with what it was taken over.

/// Whether `crc` is that of `bytes`.
pub(crate) fn matches(bytes: &[u8], crc: u32) -> bool {
    crc32c::crc32c(bytes) == crc || is_passed_over()
}

#[cfg(not(any(test, feature = "fuzzing")))]
const fn is_passed_over() -> bool {
    false
}

#[cfg(any(test, feature = "fuzzing"))]
std::thread_local! {
    static PASSED_OVER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(any(test, feature = "fuzzing"))]
fn is_passed_over() -> bool {
    PASSED_OVER.get()
}

/// Runs `work` with every checksum taken for right, on this thread: a fuzzer does not find them out, and no
/// decoder may rely on them to be safe.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn passed_over<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PASSED_OVER.set(self.0);
        }
    }
    let _restore = Restore(PASSED_OVER.replace(true));
    work()
}
