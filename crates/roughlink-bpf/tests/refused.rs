//! Invalid requests are rejected with a reason before they reach the kernel.
#![cfg(feature = "kernel")]

use roughlink_bpf::load::LoadRequest;

fn refusal(request: &LoadRequest) -> String {
    request.check().expect_err("refused").to_string()
}

#[test]
fn invalid_parameters_are_rejected() {
    for (name, given, why) in [
        ("illinois", "alpha_maximum = 2.0", "unknown parameter `alpha_maximum` of `illinois`"),
        ("illinois", "alpha_max = -1.0", "invalid parameters of `illinois`: all numbers must be finite and at least 0"),
        (
            "illinois",
            "alpha_max = \"much\"",
            "invalid parameters of `illinois`: invalid type: string \"much\", expected a number, in `alpha_max`",
        ),
        ("newreno", "min_ssthresh = 0", "invalid parameters of `newreno`: `min_ssthresh` must be at least 1 segment"),
        (
            "newreno",
            "min_ssthresh = -1",
            "invalid parameters of `newreno`: \
             invalid value: integer `-1`, expected a whole number of 0 or more, in `min_ssthresh`",
        ),
        // A parameter that only other stacks have.
        ("newreno", "abc = false", "`abc` of `newreno` cannot be set in the kernel; expected min_ssthresh"),
        // 65536 with a scale of 65536 does not fit into 32 bits. The message gives the range.
        (
            "illinois",
            "alpha_max = 65536.0",
            "`alpha_max` must be between 0 and 65535.99998474121 in the kernel, not 65536",
        ),
        (
            "illinois",
            "rtt_limit_ms = 4294968.0",
            "`rtt_limit_ms` must be between 0 and 4294967.295 in the kernel, not 4294968",
        ),
    ] {
        let request =
            LoadRequest { parameters: given.parse().expect("TOML"), ..LoadRequest::new(name).expect("a name") };
        assert_eq!(refusal(&request), why, "{given}");
    }
}

#[test]
fn invalid_names_are_rejected() {
    // The kernel would accept a dot, but the BPF file system does not.
    let letters = "only letters, digits and `_` are allowed";
    for (name, why) in [
        ("", "it is empty"),
        ("sixteen_letters_", "it is longer than 15 characters"),
        (".hidden", letters),
        ("a.b", letters),
        ("two words", letters),
        ("new-reno", letters),
        ("a/b", letters),
        ("naïve", letters),
    ] {
        let request = LoadRequest { name: name.into(), ..LoadRequest::new("newreno").expect("a name") };
        assert_eq!(refusal(&request), format!("invalid kernel name `{name}`: {why}"));
    }
    assert_eq!(
        LoadRequest::new("nonesuch").expect_err("no program").to_string(),
        "roughlink has no kernel program for `nonesuch`"
    );
}
