//! Writes what proxies are served: what differs since the last save is appended.

mod entry;

use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use foldhash::{HashMap, HashSet};
use xds::{Published, Resource, ResourceSet};
use xxhash_rust::xxh3::xxh3_64;

use crate::folder::Folder;
use crate::format::{Frame, Origin, TYPES, put_head};
use crate::kept::Kept;
use crate::node::NodeKeys;
use crate::retry::Retry;
use entry::{Known, Sets, View, Written};

/// How long what a proxy had is kept after it left: it may be about to connect again.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The file is written anew when more than this was appended, and more than twice what it began with.
const GROWTH: u64 = 16 << 20;

/// About how much is written at a time.
const PIECE: usize = 1 << 20;

/// One view and its connected proxies.
#[derive(Clone, Debug)]
pub struct Served {
    /// What they are served.
    pub published: Arc<Published>,
    /// Who they are.
    pub nodes: Vec<NodeKeys>,
}

/// What a save came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Saved {
    /// Bytes written.
    pub written: u64,
    /// Bytes of the file.
    pub size: u64,
    /// Views in it.
    pub views: usize,
    /// Their sets, one for each type that was asked for.
    pub sets: usize,
    /// Nodes in it, those of views that are left out too.
    pub nodes: usize,
    /// Views for which there is no room.
    pub left_out: usize,
}

/// The file of served resources, as it is written.
pub struct Journal {
    folder: Folder,
    origin: Origin,
    limit: u64,
    /// `None` until it was written anew.
    file: Option<File>,
    size: u64,
    /// Its size when it was written anew.
    base: u64,
    /// Numbers of the resources in the file, by the hashes of name and body.
    resources: HashMap<(u64, u64), u32>,
    /// Numbers of the sets in the file, by fingerprint and length.
    sets: HashMap<(u64, usize), u32>,
    sets_written: u32,
    views: Vec<Option<View>>,
    /// Places in `views` that are empty.
    free: Vec<u32>,
    nodes: HashMap<u128, Known>,
    round: u64,
    /// The most nodes, and the most views, that were connected at once. No more of those that left are remembered, so
    /// that clients that come and go cannot make the file, or what it holds in memory, grow without end.
    most: Most,
    retry: Retry,
}

#[derive(Clone, Copy, Default)]
struct Most {
    nodes: usize,
    views: usize,
}

impl Journal {
    /// Over a folder. What was read from it is kept for a while, for proxies that are yet to connect again.
    pub fn new(folder: Folder, origin: Origin, limit: u64, kept: Option<Kept>) -> Self {
        let mut journal = Self {
            folder,
            origin,
            limit,
            file: None,
            size: 0,
            base: 0,
            resources: HashMap::default(),
            sets: HashMap::default(),
            sets_written: 0,
            views: Vec::new(),
            free: Vec::new(),
            nodes: HashMap::default(),
            round: 0,
            most: Most::default(),
            retry: Retry::default(),
        };
        let now = Instant::now();
        for (published, nodes) in kept.into_iter().flat_map(Kept::into_views) {
            let view = journal.views.len() as u32;
            journal.views.push(Some(View {
                published,
                written: Written::No,
                nodes: nodes.len(),
            }));
            let known = nodes.into_iter().map(|keys| {
                let known = Known {
                    keys,
                    view,
                    round: 0,
                    left: Some(now),
                };
                (keys.exact, known)
            });
            journal.nodes.extend(known);
        }
        journal.most = Most {
            nodes: journal.nodes.len(),
            views: journal.views.len(),
        };
        journal
    }

    /// Says under what settings the resources are made from here on.
    pub fn set_origin(&mut self, origin: Origin) {
        if self.origin != origin {
            self.origin = origin;
            self.file = None;
        }
    }

    /// Brings the file to what is served; `None` if it says so already. Costs what differs since the last save, and
    /// now and then what there is.
    ///
    /// # Errors
    ///
    /// Those of writing. A later save writes everything anew: the next one, or after more failures in a row one that is up to
    /// five minutes away, so that a full disk is not written to all the time. Until then `None`.
    pub fn save(&mut self, served: &[Served], now: Instant) -> io::Result<Option<Saved>> {
        if !self.retry.is_due(now) {
            return Ok(None);
        }
        let outcome = self.try_save(served, now);
        match &outcome {
            Ok(_) => self.retry = Retry::default(),
            Err(_) => self.retry.failed(now),
        }
        outcome
    }

    fn try_save(&mut self, served: &[Served], now: Instant) -> io::Result<Option<Saved>> {
        self.round += 1;
        self.most.views = self.most.views.max(served.len());
        let connected = served.iter().map(|view| view.nodes.len()).sum();
        self.most.nodes = self.most.nodes.max(connected);
        let mut out = Vec::new();
        self.take_in(served, &mut out);
        self.forget(now, &mut out);
        self.drop_empty(&mut out);
        let file = self.file.take();
        if file.is_some() {
            self.append_views(&mut out);
        }
        let written = match file {
            Some(file) if out.is_empty() => {
                self.file = Some(file);
                return Ok(None);
            }
            Some(file) if self.has_room(out.len() as u64) => self.append(file, out)?,
            _ => self.rewrite()?,
        };
        let views = self.views.iter().flatten();
        let is_left_out = |v: &&View| matches!(v.written, Written::LeftOut);
        let left_out = views.clone().filter(is_left_out).count();
        Ok(Some(Saved {
            written,
            size: self.size,
            views: views.clone().count() - left_out,
            sets: views.map(View::sets_written).sum(),
            nodes: self.nodes.len(),
            left_out,
        }))
    }

    /// Finds the place of each view: that of any of its nodes, or a new one.
    fn take_in(&mut self, served: &[Served], out: &mut Vec<u8>) {
        let mut taken = HashSet::default();
        for view in served {
            let places = view.nodes.iter().filter_map(|keys| {
                let known = self.nodes.get(&keys.exact)?;
                Some(known.view)
            });
            let place = { places }.find(|place| !taken.contains(place));
            let place = place.unwrap_or_else(|| self.new_place(view.published.clone()));
            taken.insert(place);
            if let Some(Some(known)) = self.views.get_mut(place as usize) {
                known.take_in(&view.published);
            }
            for keys in &view.nodes {
                let new = Known {
                    keys: *keys,
                    view: place,
                    round: self.round,
                    left: None,
                };
                let before = self.nodes.insert(keys.exact, new);
                if before.is_none_or(|before| before.view != place) {
                    node(keys, place).put(out);
                }
            }
        }
    }

    fn new_place(&mut self, published: Arc<Published>) -> u32 {
        let view = Some(View {
            published,
            written: Written::No,
            nodes: 0,
        });
        match self.free.pop() {
            Some(place) => {
                self.views[place as usize] = view;
                place
            }
            None => {
                self.views.push(view);
                (self.views.len() - 1) as u32
            }
        }
    }

    /// Drops nodes that left long ago, and of the others that left those that were first to, where there are too many.
    fn forget(&mut self, now: Instant, out: &mut Vec<u8>) {
        let mut left: Vec<(Reverse<Instant>, u128, u32)> = Vec::new();
        let mut connected = HashSet::default();
        for (exact, known) in &mut self.nodes {
            if known.round == self.round {
                connected.insert(known.view);
            } else {
                let since = *known.left.get_or_insert(now);
                left.push((Reverse(since), *exact, known.view));
            }
        }
        left.sort_unstable();
        let (mut nodes, mut views) = (0, HashSet::default());
        for (Reverse(since), exact, view) in left {
            let has_room = nodes < self.most.nodes
                && (connected.contains(&view)
                    || views.contains(&view)
                    || views.len() < self.most.views);
            if has_room && now.saturating_duration_since(since) < REMEMBERED {
                nodes += 1;
                views.insert(view);
            } else {
                self.nodes.remove(&exact);
                Frame::Left { exact }.put(out);
            }
        }
    }

    /// Drops views without nodes.
    fn drop_empty(&mut self, out: &mut Vec<u8>) {
        self.views.iter_mut().flatten().for_each(|v| v.nodes = 0);
        for known in self.nodes.values() {
            if let Some(Some(view)) = self.views.get_mut(known.view as usize) {
                view.nodes += 1;
            }
        }
        for (place, slot) in (0..).zip(&mut self.views) {
            if slot.as_ref().is_some_and(|view| view.nodes == 0) {
                *slot = None;
                self.free.push(place);
                Frame::Gone { view: place }.put(out);
            }
        }
    }

    /// Writes what differs of the views that are not left out.
    fn append_views(&mut self, out: &mut Vec<u8>) {
        for place in 0..self.views.len() {
            let Some(Some(view)) = self.views.get(place) else {
                continue;
            };
            let published = view.published.clone();
            let base = match &view.written {
                Written::As(before, _) if Arc::ptr_eq(before, &published) => continue,
                Written::As(before, sets) => Some((before.clone(), *sets)),
                Written::No => None,
                Written::LeftOut => continue,
            };
            let sets = self.sets_of(&published, base.as_ref(), out);
            if base.is_none_or(|(_, before)| before != sets) {
                let view = place as u32;
                Frame::View { view, sets }.put(out);
            }
            if let Some(Some(view)) = self.views.get_mut(place) {
                view.written = Written::As(published, sets);
            }
        }
    }

    /// The numbers of a view's sets; those that the file lacks are written, as differences where there is a base.
    fn sets_of(
        &mut self,
        published: &Published,
        base: Option<&(Arc<Published>, Sets)>,
        out: &mut Vec<u8>,
    ) -> Sets {
        let mut sets = [None; TYPES.len()];
        for (at, ty) in TYPES.into_iter().enumerate() {
            let Some(set) = published.get(ty) else {
                continue;
            };
            let base = base.and_then(|(before, sets)| Some((before.get(ty)?, sets[at]?)));
            sets[at] = Some(self.set(set, base, out));
        }
        sets
    }

    fn set(
        &mut self,
        set: &ResourceSet,
        base: Option<(&ResourceSet, u32)>,
        out: &mut Vec<u8>,
    ) -> u32 {
        let content = (set.fingerprint(), set.len());
        if let Some(number) = self.sets.get(&content) {
            return *number;
        }
        let (mut put, mut removed) = (Vec::new(), Vec::new());
        match base {
            Some((older, _)) => set.since(older, |old, new| match new {
                Some(new) if !new.has_credentials() => put.push(self.resource(new, out)),
                _ => removed.extend(old.filter(|r| !r.has_credentials()).map(|r| r.name.clone())),
            }),
            None => {
                let written = set.iter().filter(|r| !r.has_credentials());
                put.extend(written.map(|r| self.resource(r, out)));
            }
        }
        let frame = Frame::Set {
            base: base.map(|(_, number)| number),
            put,
            removed: removed.iter().map(|name| &**name).collect(),
        };
        frame.put(out);
        let number = self.sets_written;
        self.sets_written += 1;
        self.sets.insert(content, number);
        number
    }

    fn resource(&mut self, resource: &Resource, out: &mut Vec<u8>) -> u32 {
        let next = self.resources.len() as u32;
        *self.resources.entry(key(resource)).or_insert_with(|| {
            let (name, body) = (&*resource.name, &*resource.body);
            Frame::Resource { name, body }.put(out);
            next
        })
    }

    fn has_room(&self, more: u64) -> bool {
        let grown = self.size + more - self.base;
        self.size + more <= self.limit && grown <= GROWTH.max(2 * self.base)
    }

    fn append(&mut self, mut file: File, mut out: Vec<u8>) -> io::Result<u64> {
        commit(&mut out);
        let written = file.write_all(&out).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Gives back what the disk has no room for. If this fails too, reading passes over the rest of a save.
            let _ = file.set_len(self.size);
            return Err(error);
        }
        self.size += out.len() as u64;
        self.file = Some(file);
        Ok(out.len() as u64)
    }

    /// Writes everything into a new file, which is removed again where that fails.
    fn rewrite(&mut self) -> io::Result<u64> {
        let written = self.write_anew();
        if written.is_err() {
            self.folder.give_up();
        }
        written
    }

    /// Views with the most proxies come first; half of the limit is left to grow into.
    fn write_anew(&mut self) -> io::Result<u64> {
        self.resources.clear();
        self.sets.clear();
        self.sets_written = 0;
        let mut file = self.folder.begin()?;
        let mut out = Vec::new();
        let mut size = 0;
        put_head(&self.origin, &mut out);
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (place, view) in self.views.iter().enumerate() {
            order.extend(view.as_ref().map(|view| (view.nodes, place)));
        }
        order.sort_by_key(|(nodes, place)| (Reverse(*nodes), *place));
        for (_, place) in order {
            let Some(Some(view)) = self.views.get(place) else {
                continue;
            };
            let published = view.published.clone();
            let fits = size + out.len() as u64 + self.cost(&published) <= self.limit / 2;
            let written = if fits {
                let sets = self.sets_of(&published, None, &mut out);
                let view = place as u32;
                Frame::View { view, sets }.put(&mut out);
                Written::As(published, sets)
            } else {
                Written::LeftOut
            };
            if let Some(Some(view)) = self.views.get_mut(place) {
                view.written = written;
            }
            if out.len() > PIECE {
                size += flush(&mut file, &mut out)?;
            }
        }
        for known in self.nodes.values() {
            let view = self.views.get(known.view as usize);
            if let Some(Some(view)) = view
                && let Written::As(..) = view.written
            {
                node(&known.keys, known.view).put(&mut out);
            }
        }
        commit(&mut out);
        size += flush(&mut file, &mut out)?;
        self.folder.replace(&file)?;
        (self.file, self.size, self.base) = (Some(file), size, size);
        Ok(size)
    }

    /// About how many bytes a view adds to the file.
    fn cost(&self, published: &Published) -> u64 {
        let sets = TYPES.into_iter().filter_map(|ty| published.get(ty));
        let new = sets.filter(|set| !self.sets.contains_key(&(set.fingerprint(), set.len())));
        let of_resource = |resource: &Arc<Resource>| match self.resources.get(&key(resource)) {
            Some(_) => 4,
            None => resource.name.len() + resource.body.len() + 24,
        };
        new.flat_map(ResourceSet::iter)
            .map(|r| of_resource(r) as u64)
            .sum()
    }
}

fn key(resource: &Resource) -> (u64, u64) {
    (xxh3_64(resource.name.as_bytes()), resource.version)
}

fn node(keys: &NodeKeys, view: u32) -> Frame<'static> {
    Frame::Node {
        exact: keys.exact,
        kind: keys.kind,
        addresses: keys.addresses,
        view,
    }
}

fn commit(out: &mut Vec<u8>) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let at = since.map_or(0, |since| since.as_secs());
    Frame::Commit { at }.put(out);
}

fn flush(file: &mut File, out: &mut Vec<u8>) -> io::Result<u64> {
    file.write_all(out)?;
    let written = out.len() as u64;
    out.clear();
    Ok(written)
}
