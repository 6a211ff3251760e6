//! What cannot be loaded is refused before the kernel sees it, with the reason.
#![cfg(feature = "kernel")]

use roughlink_bpf::load::Wish;

fn refusal(wish: &Wish) -> String {
    wish.check().expect_err("refused").to_string()
}

#[test]
fn parameters() {
    for (name, given, why) in [
        ("illinois", "alpha_maximum = 2.0", "`illinois` has no parameter `alpha_maximum`"),
        ("illinois", "alpha_max = -1.0", "parameters of `illinois`: parameters must be finite and not negative"),
        (
            "illinois",
            "alpha_max = \"much\"",
            "parameters of `illinois`: invalid type: string \"much\", expected a number, in `alpha_max`",
        ),
        ("newreno", "min_ssthresh = 0", "parameters of `newreno`: min_ssthresh must be at least 1 segment"),
        (
            "newreno",
            "min_ssthresh = -1",
            "parameters of `newreno`: invalid value: integer `-1`, expected a whole number of 0 or more, in `min_ssthresh`",
        ),
        // A choice that only other stacks have.
        ("newreno", "abc = false", "`abc` of `newreno` cannot be set in the kernel; these can: min_ssthresh"),
        // 65536 and a scale of 65536 do not fit into 32 bits; what fits is named.
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
        let wish = Wish { parameters: given.parse().expect("TOML"), ..Wish::new(name).expect("a name") };
        assert_eq!(refusal(&wish), why, "{given}");
    }
}

#[test]
fn names() {
    // The kernel itself would take a dot, but its file system for BPF does not.
    let letters = "the kernel takes letters, digits and `_`";
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
        let wish = Wish { name: name.into(), ..Wish::new("newreno").expect("a name") };
        assert_eq!(refusal(&wish), format!("`{name}` cannot be a name in the kernel: {why}"));
    }
    assert_eq!(Wish::new("nonesuch").expect_err("no program").to_string(), "there is no `nonesuch` for the kernel");
}
