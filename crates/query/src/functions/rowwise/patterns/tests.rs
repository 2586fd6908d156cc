use super::*;
use chrono::NaiveDateTime;

fn at(text: &str) -> NaiveDateTime {
    text.parse().expect("a test's time")
}

#[test]
fn texts_are_those_of_postgresql() {
    // The second column is what PostgreSQL 17 answers.
    for (format, expected) in [
        ("YYYY-MM-DD HH24:MI:SS.US", "2024-08-08 09:05:03.123456"),
        ("yyyy-mm-dd hh24:mi:ss", "2024-08-08 09:05:03"),
        ("YYYYMMDD", "20240808"),
        ("DD.MM.YY, HH12:MI am", "08.08.24, 09:05 am"),
        ("Day, DD Month YYYY", "Thursday , 08 August    2024"),
        ("FMDay, FMDD FMMonth FMYYYY", "Thursday, 8 August 2024"),
        ("FMDDth Mon", "8th Aug"),
        ("DY dy MON mon RM", "THU thu AUG aug VIII"),
        ("DDD D ID W WW IW IYYY Q CC J", "221 5 4 2 32 32 2024 3 21 2460531"),
        ("MS FF1 FF9 SSSSS", "123 1 123456789 32703"),
        ("Y,YYY YYY Y", "2,024 024 4"),
        ("HH24\"h\" \\\"MI\\\"", "09h \"05\""),
        ("TZ tz TZH:TZM OF", "UTC utc +00:00 +00"),
        ("A.M. p.m. AD b.c.", "A.M. a.m. AD a.d."),
        ("DDTH DDth", "08TH 08th"),
        ("é YYYY ü", "é 2024 ü"),
    ] {
        let mut text = String::new();
        write(&parts(format), at("2024-08-08T09:05:03.123456789"), &mut text);
        assert_eq!(text, expected, "{format}");
    }
    assert!(has_field(&parts("to YYYY")) && !has_field(&parts("%u-%h")) && !has_field(&parts("")));
}

#[test]
fn times_are_those_of_postgresql() {
    for (text, format, expected) in [
        ("2024-08-08 09:05:03.5", "YYYY-MM-DD HH24:MI:SS.MS", "2024-08-08T09:05:03.5"),
        ("2024-08-08 09:05:03.123456", "YYYY-MM-DD HH24:MI:SS.US", "2024-08-08T09:05:03.123456"),
        ("20240808T0905", "YYYYMMDD\"T\"HH24MI", "2024-08-08T09:05:00"),
        ("2024/08/08", "YYYY-MM-DD", "2024-08-08T00:00:00"),
        ("2024-8-8", "YYYY/MM/DD", "2024-08-08T00:00:00"),
        ("2024-08-08 10:00", "YYYY-MM-DD", "2024-08-08T00:00:00"),
        ("2024", "YYYY-MM-DD", "2024-01-01T00:00:00"),
        ("08 aug 24", "DD Mon YY", "2024-08-08T00:00:00"),
        ("August  8, 1999", "Month DD, YYYY", "1999-08-08T00:00:00"),
        ("240816", "YYMMDD", "2024-08-16T00:00:00"),
        ("700816", "YYMMDD", "1970-08-16T00:00:00"),
        ("2024-221", "YYYY-DDD", "2024-08-08T00:00:00"),
        ("2024-32-4", "IYYY-IW-ID", "2024-08-08T00:00:00"),
        ("2460531", "J", "2024-08-08T00:00:00"),
        ("12:30 am 8 VIII 2024", "HH:MI AM DD RM YYYY", "2024-08-08T00:30:00"),
        ("12:30 PM 2024-08-08", "HH12:MI AM YYYY-MM-DD", "2024-08-08T12:30:00"),
        ("2024-08-08 09:05+02:30", "YYYY-MM-DD HH24:MITZH:TZM", "2024-08-08T06:35:00"),
        ("2024-08-08 09:05 -04", "YYYY-MM-DD HH24:MI OF", "2024-08-08T13:05:00"),
        ("2024-08-08 24:00", "YYYY-MM-DD HH24:MI", "2024-08-09T00:00:00"),
        ("2024-08-08 32703", "YYYY-MM-DD SSSSS", "2024-08-08T09:05:03"),
    ] {
        assert_eq!(read(&parts(format), text), Ok(at(expected)), "{text} {format}");
    }
    for (text, format) in [
        ("2024-13-08", "YYYY-MM-DD"),
        ("2024-02-30", "YYYY-MM-DD"),
        ("abc", "YYYY"),
        ("13:00 PM 2024", "HH12:MI AM YYYY"),
        ("2024 Brumaire", "YYYY Month"),
        ("10:00", "HH24:MI"),
    ] {
        assert!(read(&parts(format), text).is_err(), "{text} {format}");
    }
}

#[test]
fn what_is_written_is_read() {
    let format = parts("YYYY-MM-DD HH24:MI:SS.FF9");
    for ns in [0, 1_723_109_400_123_456_789, -1, 4_102_444_800_000_000_001] {
        let (time, mut text) = (chrono::DateTime::from_timestamp_nanos(ns).naive_utc(), String::new());
        write(&format, time, &mut text);
        assert_eq!(read(&format, &text), Ok(time), "{text}");
    }
}
