//! Arbitrary text as a scenario file: it becomes a scenario or a list of faults that can be printed. A file with
//! overrides written into it reads back as the same scenario.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let load = |name: &str| Ok(name.to_owned());
    match roughlink_scenario::parse(text, "fuzz.toml", &[], &load) {
        Err(e) => assert!(!e.to_string().is_empty()),
        Ok((_, warnings)) => {
            warnings.iter().for_each(|w| assert!(!w.render("fuzz.toml", text).is_empty()));
            let set = [("seed".to_owned(), "7".to_owned())];
            let (second, _) =
                roughlink_scenario::parse(text, "fuzz.toml", &set, &load).expect("any scenario takes a seed");
            let (third, _) =
                roughlink_scenario::parse(&second.source, "fuzz.toml", &[], &load).expect("written by roughlink");
            assert_eq!(format!("{second:?}"), format!("{third:?}"));
        }
    }
});
