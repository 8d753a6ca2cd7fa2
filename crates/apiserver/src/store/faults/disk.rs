//! A disk in memory that fails as it is told: full, broken, out of descriptors, or with the process killed.
//!
//! What was written and not synced may be on it after a kill or not, sector by sector. After a failed sync it is read as if it
//! were there, and is not written by any later sync, as on Linux.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use super::super::StoreError;
use super::super::backend::Medium;

/// What is written whole or not at all.
const SECTOR: usize = 512;

/// A source of numbers that is the same for the same seed (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// ENOSPC: nothing is added; what is there can be read.
    Full,
    /// EIO: nothing can be read, written or synced.
    Broken,
    /// EIO of syncs only.
    Unsynced,
    /// EMFILE, and the file that is open breaks.
    NoDescriptors,
    /// The process is gone.
    Killed,
}

#[derive(Debug)]
struct State {
    cached: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    random: Random,
    /// Operations until it goes wrong, what, and for how many.
    plan: Option<(u64, Fault, u64)>,
    /// Backends of an earlier life find nothing.
    life: u64,
    hits: u64,
}

#[derive(Clone, Debug)]
pub(super) struct FaultyDisk(Arc<Mutex<State>>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Open,
    Read,
    Write,
    Sync,
}

impl FaultyDisk {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            cached: Vec::new(),
            durable: Vec::new(),
            dirty: BTreeSet::new(),
            random: Random(seed),
            plan: None,
            life: 0,
            hits: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After `after` operations, `lasts` operations fail.
    pub(super) fn plan(&self, after: u64, fault: Fault, lasts: u64) {
        self.state().plan = Some((after, fault, lasts));
    }

    /// Nothing fails any more.
    pub(super) fn heal(&self) {
        self.state().plan = None;
    }

    /// How many operations failed.
    pub(super) fn hits(&self) -> u64 {
        self.state().hits
    }

    /// Whether the process was killed, and nothing has been started since.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state().plan, Some((0, Fault::Killed, _)))
    }

    /// The disk for the process that lives now.
    pub(super) fn of_this_life(&self) -> Opened {
        let life = self.state().life;
        let disk = self.clone();
        Opened { disk, life }
    }

    /// The disk as it is after the process is gone.
    pub(super) fn restart(&self) {
        let mut state = self.state();
        let State {
            cached,
            durable,
            dirty,
            random,
            ..
        } = &mut *state;
        if random.coin() && cached.len() != durable.len() {
            durable.resize(cached.len(), 0);
        }
        for sector in std::mem::take(dirty) {
            if random.coin() {
                copy_sector(cached, durable, sector);
            }
        }
        cached.clone_from(durable);
        state.plan = None;
        state.life += 1;
    }
}

fn copy_sector(from: &[u8], to: &mut [u8], sector: usize) {
    let start = sector * SECTOR;
    let end = (start + SECTOR).min(from.len()).min(to.len());
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}

impl State {
    /// Whether an operation goes wrong.
    fn fails(&mut self, operation: Operation) -> Option<Fault> {
        let (left, fault, lasts) = self.plan.as_mut()?;
        if *left > 0 {
            *left -= 1;
            return None;
        }
        let fault = *fault;
        if fault == Fault::Killed {
            return Some(fault);
        }
        let concerned = match fault {
            Fault::Full => operation == Operation::Write,
            Fault::Unsynced => operation == Operation::Sync,
            Fault::NoDescriptors => matches!(operation, Operation::Open | Operation::Write),
            _ => true,
        };
        if !concerned {
            return None;
        }
        *lasts = lasts.saturating_sub(1);
        if *lasts == 0 {
            self.plan = None;
        }
        self.hits += 1;
        Some(fault)
    }
}

fn error(fault: Fault) -> io::Error {
    match fault {
        Fault::Full => io::ErrorKind::StorageFull.into(),
        Fault::NoDescriptors => io::Error::other("too many open files (EMFILE)"),
        Fault::Killed => io::Error::other("the process was killed"),
        Fault::Broken | Fault::Unsynced => io::Error::other("input/output error (EIO)"),
    }
}

impl Medium for Opened {
    fn open(&self) -> Result<Box<dyn StorageBackend>, StoreError> {
        let state = self.state().map_err(StoreError::Folder);
        if let Some(fault) = state?.fails(Operation::Open) {
            return Err(StoreError::Folder(error(fault)));
        }
        Ok(Box::new(self.clone()))
    }
}

/// The disk as a process has it that lives once.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    disk: FaultyDisk,
    life: u64,
}

impl Opened {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        match state.life == self.life {
            true => Ok(state),
            false => Err(error(Fault::Killed)),
        }
    }
}

fn beyond() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

impl StorageBackend for Opened {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.cached.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state()?;
        if let Some(fault) = state.fails(Operation::Read) {
            return Err(error(fault));
        }
        let start = offset as usize;
        let found = state.cached.get(start..start + out.len());
        out.copy_from_slice(found.ok_or_else(beyond)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state()?;
        if let Some(fault) = state.fails(Operation::Write) {
            return Err(error(fault));
        }
        state.cached.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut guard = self.state()?;
        let fault = guard.fails(Operation::Sync);
        if fault == Some(Fault::Killed) {
            return Err(error(Fault::Killed));
        }
        let State {
            cached,
            durable,
            dirty,
            random,
            ..
        } = &mut *guard;
        if fault.is_none() || random.coin() {
            durable.resize(cached.len(), 0);
        }
        for sector in std::mem::take(dirty) {
            // What a failed sync leaves out is taken for clean.
            if fault.is_none() || random.coin() {
                copy_sector(cached, durable, sector);
            }
        }
        fault.map_or(Ok(()), |fault| Err(error(fault)))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state()?;
        let fault = state.fails(Operation::Write);
        // A write that fails may have been done in part.
        let size = match fault {
            None => data.len(),
            Some(_) => state.random.below(data.len() as u64 + 1) as usize,
        };
        let start = offset as usize;
        let place = state.cached.get_mut(start..start + size);
        place.ok_or_else(beyond)?.copy_from_slice(&data[..size]);
        let sectors = start / SECTOR..(start + size).div_ceil(SECTOR);
        state.dirty.extend(sectors);
        fault.map_or(Ok(()), |fault| Err(error(fault)))
    }
}
