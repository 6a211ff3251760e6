//! Whether anything in a scenario is random.

use super::Scenario;
use crate::app::Traffic;
use crate::link::noise::Noise;
use crate::link::{Direction, Model, PipeConfig};

impl Scenario {
    /// Whether a run can depend on its seed and its replica. If it cannot, all replicas give the same result. Media that
    /// directions share are taken to be random whatever their noise: their stations draw slots and phases.
    pub fn is_random(&self) -> bool {
        let link = |model: &Model| match model {
            Model::Pipe(pipe) => {
                let PipeConfig { forward, reverse, mtu: _, overhead: _ } = &**pipe;
                forward.is_random() || reverse.is_random()
            }
            Model::Shared(_) => true,
        };
        let flow = |traffic: &Traffic| match traffic {
            Traffic::Voip { .. } => true, // the phase of its talkspurts
            Traffic::Bulk { .. } | Traffic::Cbr { .. } | Traffic::Request { .. } => false,
        };
        self.links.iter().any(|l| link(&l.model)) || self.flows.iter().any(|f| flow(&f.traffic))
    }
}

impl Direction {
    fn is_random(&self) -> bool {
        let Direction { rate: _, delay: _, queue: _, noise, jitter, reorder: _, timeline } = self;
        let later = timeline.iter().flat_map(|t| &t.noises);
        !jitter.is_zero() || std::iter::once(noise).chain(later).any(Noise::is_random)
    }
}

impl Noise {
    /// Whether its decisions depend on a random stream. Losses that never or always happen do not.
    fn is_random(&self) -> bool {
        let open = |p: f64| p > 0.0 && p < 1.0;
        match self {
            Noise::None | Noise::List { .. } => false,
            Noise::Random { loss } => open(*loss),
            Noise::Burst { start, .. } => open(*start),
            Noise::GilbertElliott { loss_good, loss_bad, .. } => {
                open(*loss_good) || open(*loss_bad) || loss_good != loss_bad
            }
            Noise::Impulse(pulses) => pulses.kill > 0.0,
            Noise::Recorded { steps } => steps.iter().any(|(_, p)| open(*p)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::RunResult;
    use crate::net::{Network, Options};
    use crate::scenario::Scenario;

    fn scenario(more: &str) -> Scenario {
        let text = format!(
            "duration = \"5 s\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nname = \"l\"\n\
             between = [\"a\", \"b\"]\nrate = \"2 Mbit/s\"\ndelay = \"30 ms\"\n{more}\n"
        );
        let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
        Scenario::parse(&(text + flow), "t", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
    }

    fn run(s: &Scenario, replica: u32) -> RunResult {
        let result = Network::new(s.clone(), Options { replica, ..Options::default() }).unwrap().run().unwrap();
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
        let (cable, _) = Scenario::parse(&cable, "t", &[], &|_| Err("no files".into())).unwrap();
        assert!(cable.is_random() && run(&cable, 0) != run(&cable, 1));
    }
}
