use super::*;

/// RFC 7677, section 3: user "user", password "pencil".
fn example() -> (Exchange, String) {
    let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let verifier = Verifier::parse(verifier).expect("a verifier");
    let more = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    Exchange::begin(MECHANISM, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO", None, verifier, more)
        .expect("a first message")
}

const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

#[test]
fn the_example_of_the_rfc() {
    let (exchange, answer) = example();
    let wanted = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    assert_eq!(answer, wanted);
    let proof = exchange.finish(LAST);
    assert_eq!(proof.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
}

#[test]
fn nothing_else_proves_it() {
    let (exchange, _) = example();
    for wrong in
        ["", ",", "c=biws", "p=", "c=biws,r=x,p=", &LAST.replace("biws", "eSws"), &LAST.replace("k0,", "k1,")]
    {
        assert_eq!(exchange.finish(wrong), None, "{wrong}");
    }
    // Each byte of it counts.
    for place in 0..LAST.len() {
        let mut bytes = LAST.as_bytes().to_vec();
        bytes[place] ^= 1;
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        assert_eq!(exchange.finish(&changed), None, "{changed}");
    }
}

#[test]
fn first_messages_that_are_none() {
    let verifier = example().0.verifier;
    for wrong in
        ["", "n", "n,", "n,,", "n,,n=", "n,,n=,r=", "p=tls-unique,,n=,r=a", "x,,n=,r=a", "n,,m=1,n=,r=a"]
    {
        assert!(Exchange::begin(MECHANISM, wrong, None, verifier.clone(), "b").is_none(), "{wrong}");
    }
}

#[test]
fn a_login_is_bound_to_what_was_offered() {
    let verifier = example().0.verifier;
    let begun = |mechanism, flag: &str, end_point: Option<&[u8]>| {
        let first = format!("{flag},,n=,r=a");
        Exchange::begin(mechanism, &first, end_point, verifier.clone(), "b")
            .map(|(exchange, _)| exchange.binding)
    };
    let end_point = Some(&b"hash"[..]);
    assert_eq!(mechanisms(end_point), [BINDING, MECHANISM]);
    assert_eq!(mechanisms(None), [MECHANISM]);
    assert_eq!(begun(BINDING, BINDING_FLAG, end_point), Some(b"p=tls-server-end-point,,hash".to_vec()));
    assert_eq!(begun(MECHANISM, "n", end_point), Some(b"n,,".to_vec()));
    assert_eq!(begun(MECHANISM, "y", None), Some(b"y,,".to_vec()));
    for (mechanism, flag, end_point) in [
        // The client was told that nothing can be bound, and something can.
        (MECHANISM, "y", end_point),
        (MECHANISM, BINDING_FLAG, end_point),
        (BINDING, "n", end_point),
        (BINDING, "y", end_point),
        (BINDING, "p=tls-unique", end_point),
        (BINDING, BINDING_FLAG, None),
    ] {
        assert_eq!(begun(mechanism, flag, end_point), None, "{mechanism} {flag}");
    }
}
