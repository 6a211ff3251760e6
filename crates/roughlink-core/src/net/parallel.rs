//! Execution of components on several threads. Core starts no threads; the caller provides them.

use super::budget::{Budget, Exceeded};
use super::{ComponentSlot, Network, NoObserver};
use crate::metrics::RunResult;
use std::sync::{Mutex, MutexGuard, PoisonError};

impl Network {
    /// Runs the scenario to its end like [`Network::run`], with components on several threads. `execute` must call its
    /// argument once on each thread that is to take part, and return after the last call has returned.
    ///
    /// Threads change neither results nor errors. The limit on memory applies to each component, as in one thread. A
    /// limit on events counts the components in order and therefore keeps them in the calling thread.
    ///
    /// ```
    /// # use roughlink_core::net::{Exceeded, Network};
    /// # use roughlink_core::metrics::RunResult;
    /// fn run_on_two_threads(network: &mut Network) -> Result<RunResult, Exceeded> {
    ///     network.run_on(|work| {
    ///         std::thread::scope(|threads| {
    ///             threads.spawn(work);
    ///             work();
    ///         });
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns the first of [`super::RunOptions::limits`] that the run exceeds, in the order of components.
    pub fn run_on(&mut self, execute: impl FnOnce(&(dyn Fn() + Sync))) -> Result<RunResult, Exceeded> {
        let in_order = self.options.limits.events != u64::MAX || !self.options.ports.is_empty() || self.is_stopped();
        if !in_order && self.parts.len() > 1 {
            self.run_components(execute);
        }
        self.run() // what is left
    }

    fn run_components(&mut self, execute: impl FnOnce(&(dyn Fn() + Sync))) {
        let Network { scenario, paths, options, parts, budget, reports, .. } = self;
        let (until, at_once) = (scenario.duration, (parts.len() / CHUNKS).clamp(1, MAX_CHUNK));
        // Threads take components in order. When one exceeds a limit, threads have taken all before it and finish them.
        let components = Mutex::new(parts.chunks_mut(at_once).enumerate());
        let results = Mutex::new((reports, None::<(usize, Budget)>));
        execute(&|| {
            loop {
                let Some((number, chunk)) = locked(&components).next() else { return };
                let (mut finished, mut used) = (Vec::with_capacity(chunk.len()), Budget::new(options));
                for slot in chunk {
                    used.begin_component();
                    let Some(component) = slot.start(scenario, paths, options) else { continue };
                    component.run(until, &mut used, &mut NoObserver);
                    if used.exceeded().is_some() {
                        break;
                    }
                    if let ComponentSlot::Running(component) = std::mem::replace(slot, ComponentSlot::Over) {
                        finished.push(component.finish(until));
                    }
                }
                let mut results = locked(&results);
                finished.into_iter().for_each(|component| results.0.add(component));
                if used.exceeded().is_some() && results.1.as_ref().is_none_or(|(first, _)| number < *first) {
                    results.1 = Some((number, used));
                }
                if results.1.is_some() {
                    return;
                }
            }
        });
        let (_, exceeded) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, used)) = exceeded {
            *budget = used;
        }
    }
}

/// Locks a mutex, even after a panic in another thread. The threads of the caller report the panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of chunks into which components are divided, and maximum of components in one: tiny components share a lock.
const CHUNKS: usize = 256;
const MAX_CHUNK: usize = 64;
