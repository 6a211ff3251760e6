//! Writing of captures: a thread of ordinary priority writes the file, so that a slow disk does not delay the loop. The
//! loop fills buffers and queues them for the thread without waiting. The queue holds up to [`MOST`] buffers. While it
//! is full, whole packets are left out of the capture and counted. The link keeps its timing, and the result reports an
//! incomplete capture. Interfaces are never left out, because packets refer to them by number.

use std::io::{self, ErrorKind, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Writer that queues each write as a whole or not at all. Dropping it waits until all queued buffers are written.
pub(super) struct QueuedWriter {
    buffer: Vec<u8>,
    spare: Option<Vec<u8>>,
    queued_at: Instant,
    full: Option<SyncSender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
    left_out: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl QueuedWriter {
    /// Creates a recorder that writes to `out`. `left_out` counts the writes for which there was no room.
    pub(super) fn new(out: impl Write + Send + 'static, left_out: Arc<AtomicU64>) -> Self {
        let (full, waiting) = sync_channel(MOST);
        let (back, empty) = sync_channel(MOST);
        let thread = thread::spawn(move || write_out(out, &waiting, &back));
        QueuedWriter {
            buffer: Vec::with_capacity(LENGTH),
            spare: None,
            queued_at: now(),
            full: Some(full),
            empty,
            left_out,
            thread: Some(thread),
        }
    }

    /// Queues the buffer if there is room for it.
    fn queue_buffer(&mut self) -> io::Result<()> {
        let Some(full) = self.full.as_ref().filter(|_| !self.buffer.is_empty()) else { return Ok(()) };
        let spare = self.spare.take().or_else(|| self.empty.try_recv().ok());
        let next = spare.unwrap_or_else(|| Vec::with_capacity(LENGTH));
        match full.try_send(mem::replace(&mut self.buffer, next)) {
            Ok(()) => {
                self.queued_at = now();
                Ok(())
            }
            Err(TrySendError::Full(buffer)) => {
                self.spare = Some(mem::replace(&mut self.buffer, buffer));
                Ok(())
            }
            // The thread ended after a write error, which [`GrowingFiles`](roughlink_lab::output::GrowingFiles) keeps.
            Err(TrySendError::Disconnected(_)) => Err(ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Write for QueuedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_interface = bytes.starts_with(&INTERFACE_DESCRIPTION);
        let has_room = |buffer: &Vec<u8>| buffer.is_empty() || is_interface || buffer.len() + bytes.len() <= LENGTH;
        if !has_room(&self.buffer) {
            self.queue_buffer()?;
        }
        if !has_room(&self.buffer) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return Ok(bytes.len());
        }
        self.buffer.extend_from_slice(bytes);
        if now().duration_since(self.queued_at) >= PROMPT {
            self.queue_buffer()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.queue_buffer()
    }
}

impl Drop for QueuedWriter {
    fn drop(&mut self) {
        if let Some(full) = self.full.take() {
            let _ = full.send(mem::take(&mut self.buffer));
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn write_out(mut out: impl Write, waiting: &Receiver<Vec<u8>>, back: &SyncSender<Vec<u8>>) {
    loop {
        match waiting.try_recv() {
            Ok(mut buffer) => {
                if out.write_all(&buffer).is_err() {
                    return;
                }
                buffer.clear();
                let _ = back.try_send(buffer);
            }
            // Poll: to wake a thread that waits in the channel, the loop would have to take a lock.
            Err(TryRecvError::Empty) => thread::sleep(LOOK),
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "when a file is written, and nothing else, depends on it")]
fn now() -> Instant {
    Instant::now()
}

/// Size of a buffer, bytes, unless a single write is longer.
const LENGTH: usize = 1 << 16;
/// First bytes of the pcapng block that adds an interface.
const INTERFACE_DESCRIPTION: [u8; 4] = 1_u32.to_le_bytes();
/// Maximum number of queued buffers: 32 MiB, more than a second of 100 Mbit/s captured at both ends.
const MOST: usize = 512;
/// Interval after which the buffer is queued even if it is not full.
const PROMPT: Duration = Duration::from_millis(200);
/// Interval at which the thread polls the queue.
const LOOK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    /// Disk that blocks each write until a message arrives or the sender is gone.
    struct WriterStuck(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for WriterStuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv_timeout(Duration::from_secs(60)); // returns at once without a sender
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The blocked disk causes all losses: if the loop waited for it, the test would take a minute and fail.
    #[test]
    fn stalled_disk_does_not_block_the_recorder() {
        let (go, stuck) = channel();
        let (written, left_out) = (Arc::default(), Arc::<AtomicU64>::default());
        let mut recorder = QueuedWriter::new(WriterStuck(stuck, Arc::clone(&written)), Arc::clone(&left_out));
        let packets = 2 * MOST as u32 * (LENGTH as u32 / 1000);
        let start = now();
        for number in 0..packets {
            recorder.write_all(&[&number.to_be_bytes()[..], &[0; 996]].concat()).unwrap();
        }
        assert!(now().duration_since(start) < Duration::from_secs(60), "the disk was waited for");
        let lost = left_out.load(Ordering::Relaxed);
        assert!(lost > 0 && lost < u64::from(packets) * 6 / 10, "{lost} of {packets}");
        let interface = [INTERFACE_DESCRIPTION; 250].concat();
        recorder.write_all(&interface).unwrap();
        assert_eq!(left_out.load(Ordering::Relaxed), lost);
        drop(go);
        // There is room again.
        while !written.lock().unwrap().ends_with(b"more") {
            recorder.write_all(b"more").unwrap();
            thread::sleep(LOOK);
            recorder.flush().unwrap();
            assert!(now().duration_since(start) < Duration::from_secs(120));
        }
        drop(recorder);
        let written = written.lock().unwrap();
        let whole = (packets - lost as u32) as usize;
        // All other packets are complete and in order.
        let number = |packet: &[u8]| u32::from_be_bytes(*packet.first_chunk().unwrap());
        let numbers: Vec<u32> = written.chunks_exact(1000).take(whole).map(number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b) && numbers.len() == whole);
        let rest = written[1000 * whole..].strip_prefix(&interface[..]).expect("the interface is not left out");
        assert!(rest.chunks(4).all(|more| more == b"more"));
    }

    #[test]
    fn drop_writes_the_rest_and_write_errors_are_returned() {
        let (written, left_out) = (Arc::default(), Arc::<AtomicU64>::default());
        let (_, stuck) = channel();
        let mut recorder = QueuedWriter::new(WriterStuck(stuck, Arc::clone(&written)), Arc::clone(&left_out));
        (0..1000).for_each(|_| recorder.write_all(&[7; 1000]).unwrap());
        recorder.write_all(&[7; 3 * LENGTH]).unwrap();
        drop(recorder);
        assert_eq!((written.lock().unwrap().len(), left_out.load(Ordering::Relaxed)), (1_000_000 + 3 * LENGTH, 0));

        struct QueueFull;
        impl Write for QueueFull {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut recorder = QueuedWriter::new(QueueFull, left_out);
        let fails = |_| {
            recorder.write_all(&[7; LENGTH]).is_err() || {
                thread::sleep(LOOK);
                false
            }
        };
        assert!((0..500).any(fails));
    }
}
