//! The models of a producer's buffer: callers that take room and gather, and the driver, which sends what has gathered.

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;
use parking_lot::{Condvar, Mutex};

use crate::flushing::with_switches;
use crate::room::Room;

/// All there is, so that a second record has to wait for the first.
const RECORD_BYTES: u32 = 8;

/// What callers tell the driver.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    /// A batch has begun.
    Ready,
    /// Somebody waits for room.
    Urge,
    End,
}

#[derive(Debug, PartialEq, Eq)]
struct Closed;

/// A producer whose batches linger for ever, but where somebody waits.
#[derive(Debug)]
struct Producer {
    room: Room,
    /// Bytes of the batch that is being gathered.
    open: Mutex<usize>,
    commands: Mutex<Vec<Command>>,
    told: Condvar,
}

impl Producer {
    fn start() -> Arc<Self> {
        let producer = Self {
            room: Room::new(RECORD_BYTES as usize),
            open: Mutex::default(),
            commands: Mutex::default(),
            told: Condvar::new(),
        };
        Arc::new(producer)
    }

    fn tell(&self, command: Command) -> Result<(), Closed> {
        self.commands.lock().push(command);
        self.told.notify_one();
        Ok(())
    }

    fn reserve(&self) -> Result<(), Closed> {
        if self.room.try_take(RECORD_BYTES).is_ok() {
            return Ok(());
        }
        block_on(self.room.take(RECORD_BYTES, || self.tell(Command::Urge), || Closed))
    }

    /// Hands a record over. Where it is not valid no batch takes it.
    fn enqueue(&self, is_valid: bool) -> Result<(), Closed> {
        self.reserve()?;
        let mut reserved = self.room.reserved(RECORD_BYTES as usize);
        if is_valid {
            *self.open.lock() += RECORD_BYTES as usize;
            reserved.bytes = 0;
            self.tell(Command::Ready)?;
        }
        Ok(())
    }

    /// The driver: once for each command it looks whether the batch may linger on.
    fn drive(&self) {
        loop {
            let mut commands = self.commands.lock();
            while commands.is_empty() {
                self.told.wait(&mut commands);
            }
            let command = commands.remove(0);
            drop(commands);
            if command == Command::End || self.room.is_awaited() {
                let sent_bytes = std::mem::take(&mut *self.open.lock());
                self.room.give_back(sent_bytes);
            }
            if command == Command::End {
                return;
            }
        }
    }
}

/// Two callers beside the driver; when they are through, all room is there again.
fn two_callers(first_is_valid: bool) {
    with_switches(3, move || {
        let producer = Producer::start();
        let driver = thread::spawn({
            let producer = Arc::clone(&producer);
            move || producer.drive()
        });
        let other = thread::spawn({
            let producer = Arc::clone(&producer);
            move || producer.enqueue(first_is_valid)
        });
        assert_eq!(producer.enqueue(true), Ok(()));
        assert_eq!(other.join().unwrap(), Ok(()));
        producer.tell(Command::End).unwrap();
        driver.join().unwrap();
        assert_eq!((producer.room.free_bytes(), producer.room.is_awaited()), (RECORD_BYTES as usize, false));
    });
}

fn who_waits_for_room_is_not_left_to_a_batch_that_lingers() {
    two_callers(true);
}

fn room_of_a_record_that_is_not_taken_goes_to_who_waits() {
    two_callers(false);
}

fn who_waits_for_room_of_a_producer_that_closes_is_told() {
    loom::model(|| {
        let producer = Producer::start();
        let waits = thread::spawn({
            let producer = Arc::clone(&producer);
            move || producer.enqueue(true).and_then(|()| producer.enqueue(true))
        });
        producer.room.close();
        assert_eq!(waits.join().unwrap(), Err(Closed));
        assert!(!producer.room.is_awaited());
    });
}

/// All of them.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("who waits for room is not left to a batch that lingers", who_waits_for_room_is_not_left_to_a_batch_that_lingers),
    ("room of a record that is not taken goes to who waits", room_of_a_record_that_is_not_taken_goes_to_who_waits),
    ("who waits for room of a producer that closes is told", who_waits_for_room_of_a_producer_that_closes_is_told),
];
