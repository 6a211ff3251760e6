//! A scenario reports correctly whether it is random.

use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::scenario::Scenario;

fn scenario(more: &str) -> Scenario {
    let text = format!(
        "duration = \"5 s\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nname = \"l\"\n\
         between = [\"a\", \"b\"]\nrate = \"2 Mbit/s\"\ndelay = \"30 ms\"\n{more}\n"
    );
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
    roughlink_scenario::parse(&(text + flow), "t", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
}

fn run(s: &Scenario, replica: u32) -> RunResult {
    let result = Network::new(s.clone(), RunOptions { replica, ..RunOptions::default() }).unwrap().run().unwrap();
    RunResult { replica: 0, ..result }
}

#[test]
fn only_random_runs_differ_between_replicas() {
    let cases = [
        ("", false),
        ("noise = { kind = \"list\", drop = [20, 21, 80] }", false),
        ("noise = { kind = \"random\", loss = \"0 %\" }", false),
        ("noise = { kind = \"random\", loss = \"2 %\" }", true),
        ("noise = { kind = \"burst\", start = \"0 %\", length = [1, 4] }", false),
        ("noise = { kind = \"burst\", start = \"1 %\", length = [1, 4] }", true),
        ("jitter = \"3 ms\"", true),
        ("timeline = [{ at = \"1 s\", rate = \"1 Mbit/s\" }]", false),
        ("timeline = [{ at = \"1 s\", noise = { kind = \"random\", loss = \"2 %\" } }]", true),
    ];
    for (more, random) in cases {
        let s = scenario(more);
        assert_eq!(s.is_random(), random, "{more}");
        assert_eq!(run(&s, 0) != run(&s, 1), random, "{more}");
    }
    let call = scenario("[[flow]]\nname = \"call\"\nkind = \"voip\"\nfrom = \"a\"\nto = \"b\"\n");
    assert!(call.is_random() && run(&call, 0) != run(&call, 1));
    let cable = scenario("").source.replacen("rate = \"2 Mbit/s\"\ndelay = \"30 ms\"", "kind = \"hdplc\"", 1);
    let (cable, _) = roughlink_scenario::parse(&cable, "t", &[], &|_| Err("no files".into())).unwrap();
    assert!(cable.is_random() && run(&cable, 0) != run(&cable, 1));
}
