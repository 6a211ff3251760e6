//! Traffic that the application limits: on-off writes, and requests with responses.

use roughlink_core::metrics::{FlowResult, RunResult};
use roughlink_core::net::{Network, RunOptions};
use roughlink_scenario::parse;
use std::sync::Arc;

fn run(flow: &str, stack: &str) -> RunResult {
    let text = format!(
        "duration = \"60 s\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[tcp]\nstack = \"{stack}\"\n\
         [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"20 Mbit/s\"\ndelay = \"50 ms\"\nqueue = \"1 MB\"\n\
         [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{flow}"
    );
    let none = |_: &str| Err(String::new());
    let (scenario, warnings) = parse(&text, "one.toml", &[], &none).unwrap();
    assert!(warnings.is_empty());
    Network::new(Arc::new(scenario), RunOptions::default()).unwrap().run().unwrap()
}

/// An application below the rate of the path delivers at its own rate, without a queue.
#[test]
fn application_limits_the_rate() {
    for stack in ["linux", "rfc"] {
        let r = run("kind = \"onoff\"\nrate = \"4 Mbit/s\"\n", stack);
        let rate = r.flows[0].throughput_mbps.unwrap();
        assert!((rate - 4.0).abs() < 0.02, "{stack}: {rate}");
        assert!(r.links[0].forward.queue_mean_pkt < 0.5, "{stack}: {:?}", r.links[0].forward);
        let r = run("kind = \"onoff\"\nrate = \"8 Mbit/s\"\non = \"2 s\"\noff = \"6 s\"\nbytes = \"10 MB\"\n", stack);
        assert_eq!((r.flows[0].delivered_bytes, r.flows[0].completed), (10_000_000, true), "{stack}");
        // Five on periods of 2 MB, four pauses.
        assert!((r.flows[0].end_s.unwrap() - 34.0).abs() < 0.5, "{stack}: {:?}", r.flows[0].end_s);
    }
}

/// An application that offers more than the path carries writes as far as possible, and nothing is lost.
#[test]
fn application_above_the_path_rate_waits() {
    let r = run("kind = \"onoff\"\nrate = \"100 Mbit/s\"\nbytes = \"20 MB\"\n", "linux");
    assert_eq!((r.flows[0].delivered_bytes, r.flows[0].completed), (20_000_000, true));
    assert!(r.flows[0].throughput_mbps.unwrap() > 15.0);
}

/// 400 kB take more round trips from a small window: the response time shows whether the idle window was reduced.
#[test]
fn idle_server_restarts_in_slow_start() {
    let web = "kind = \"web\"\nresponse = \"400 kB\"\nthink = \"3 s\"\nrequests = 10\n";
    let median = |keep: bool, stack: &str| {
        let flow = if keep { format!("{web}tcp = {{ slow_start_after_idle = false }}\n") } else { web.to_owned() };
        let f = &run(&flow, stack).flows[0];
        let result = f.web().unwrap();
        assert_eq!((result.requests, result.responses, f.completed), (10, 10, true));
        assert_eq!(f.delivered_bytes, 4_000_000);
        result.response_ms.unwrap().p50
    };
    for stack in ["linux", "rfc"] {
        let (reduced, kept) = (median(false, stack), median(true, stack));
        // 400 kB take 0.16 s at 20 Mbit/s plus one round trip, or four round trips with the 128 KiB window of `rfc`.
        // Slow start from ten segments takes several round trips more.
        assert!(kept < 450.0 && reduced > kept + 100.0, "{stack}: {reduced} {kept}");
    }
}

/// A result that lacks a field is an error, an absent result is none.
#[test]
fn application_results_are_read_back() {
    let flow = &run("kind = \"web\"\nrequests = 3\n", "linux").flows[0];
    let mut json = serde_json::to_value(flow).unwrap();
    assert_eq!(json["web"]["responses"], 3);
    assert_eq!(serde_json::from_value::<FlowResult>(json.clone()).unwrap(), *flow);
    json["web"].as_object_mut().unwrap().remove("responses");
    let error = serde_json::from_value::<FlowResult>(json.clone()).unwrap_err();
    assert!(error.to_string().contains("responses"), "{error}");
    json.as_object_mut().unwrap().remove("web");
    assert_eq!(serde_json::from_value::<FlowResult>(json).unwrap().application, None);
}
