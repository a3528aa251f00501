//! Reads what a run printed: one stream, or both in the order in which they arrived, from any place on, while the
//! run goes on. Logs of many gigabytes are never read whole to show their end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nexus_api::run_dir::{ORDER, STDERR, STDOUT};

use crate::order::{MAGIC, RECORD, Stretch};
use crate::run_file;

/// Read backwards at once when lines are counted.
const BLOCK_BYTES: u64 = 64 << 10;

/// An order that is on its way is there in an instant, unless its shim was killed in that very instant.
const ORDER_PATIENCE: Duration = Duration::from_millis(100);

/// No order is on its way to logs that were last written longer ago.
const LATELY: Duration = Duration::from_secs(2);

/// A shim writes pieces of less than this to a log before it notes them in the order.
const MOST_AHEAD: u64 = 1 << 20;

/// A job can make a line of 8 EiB that takes no disk: no more than this is searched for the beginning of a line.
const MOST_TAIL_BYTES: u64 = 64 << 20;

/// Where the first stretch is.
const FIRST: u64 = MAGIC.len() as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Both,
    Stdout,
    Stderr,
}

impl Which {
    fn shows(self, stderr: bool) -> bool {
        matches!((self, stderr), (Which::Both, _) | (Which::Stdout, false) | (Which::Stderr, true))
    }
}

/// Bytes of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub stderr: bool,
    pub bytes: Vec<u8>,
}

/// A place in the output of a run.
pub struct LogReader {
    dir: PathBuf,
    which: Which,
    streams: [Stream; 2],
    order: Option<File>,
    /// The order has told of something.
    is_ordered: bool,
    /// An order that should have been there never came.
    has_no_order: bool,
    /// Where the stretch that is being read is in the order, and how much of it has been read.
    stretch_at: u64,
    in_stretch: u64,
}

/// One log. It may not be there yet.
struct Stream {
    file: Option<File>,
    position: u64,
    /// Bytes that were read before the order told of them.
    ahead: u64,
}

impl Stream {
    fn length(&mut self, dir: &Path, name: &str) -> io::Result<u64> {
        if self.file.is_none() {
            self.file = run_file::open_if_there(&dir.join(name))?;
        }
        self.file.as_ref().map_or(Ok(0), |file| Ok(file.metadata()?.len()))
    }

    /// Moves back by up to `bytes`; how far.
    fn retreat(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.position);
        self.position -= taken;
        taken
    }

    fn read(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; most as usize];
        let count = match &self.file {
            Some(file) => file.read_at(&mut bytes, self.position)?,
            None => 0,
        };
        bytes.truncate(count);
        self.position += count as u64;
        Ok(bytes)
    }
}

/// None where there is no order, or something else has its name: then standard output comes before standard error.
fn open_order(dir: &Path) -> io::Result<Option<File>> {
    match run_file::open_if_there(&dir.join(ORDER)) {
        Err(error) if run_file::unfit(&error).is_some() => Ok(None),
        opened => opened,
    }
}

impl LogReader {
    /// Stands at the beginning. The directory and its logs need not exist yet.
    pub fn open(dir: &Path, which: Which) -> io::Result<LogReader> {
        let stream = || Stream { file: None, position: 0, ahead: 0 };
        let mut reader = LogReader {
            dir: dir.to_owned(),
            which,
            streams: [stream(), stream()],
            order: None,
            is_ordered: false,
            has_no_order: false,
            stretch_at: FIRST,
            in_stretch: 0,
        };
        reader.lengths()?;
        Ok(reader)
    }

    /// The next bytes, at most `max`. `None` if there are no more at the moment.
    pub fn read_next(&mut self, max: usize) -> io::Result<Option<Chunk>> {
        let max = max.max(1) as u64;
        let until = Instant::now() + ORDER_PATIENCE;
        loop {
            // The lengths come first: a log is written before the order, so what the order, read afterwards, does not
            // tell of is a single chunk on its way.
            let lengths = self.lengths()?;
            if self.which == Which::Both
                && let Some(chunk) = self.read_in_order(max)?
            {
                return Ok(Some(chunk));
            }
            if self.which != Which::Both || self.is_ordered || self.has_no_order || self.is_of_one(lengths)? {
                return self.read_up_to(lengths, max);
            }
            // Both have bytes: the order is about to say which were first.
            self.has_no_order = Instant::now() > until || !self.were_written_lately();
            if !self.has_no_order {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Whether one stream alone had bytes when these lengths were read, one after the other.
    fn is_of_one(&mut self, [stdout, stderr]: [u64; 2]) -> io::Result<bool> {
        Ok(stderr == 0 || (stdout == 0 && self.lengths()?[0] == 0))
    }

    /// By a clock that may be another's: a time to come counts as now.
    fn were_written_lately(&self) -> bool {
        let written = |stream: &Stream| stream.file.as_ref()?.metadata().ok()?.modified().ok();
        let is_late = |at: SystemTime| SystemTime::now().duration_since(at).map_or(true, |age| age < LATELY);
        self.streams.iter().filter_map(written).any(is_late)
    }

    fn read_up_to(&mut self, lengths: [u64; 2], max: u64) -> io::Result<Option<Chunk>> {
        let which = self.which;
        for stderr in [false, true].into_iter().filter(|stderr| which.shows(*stderr)) {
            let stream = &mut self.streams[usize::from(stderr)];
            let left = lengths[usize::from(stderr)].saturating_sub(stream.position);
            if left > 0 {
                let bytes = stream.read(left.min(max))?;
                stream.ahead += bytes.len() as u64;
                return Ok(Some(Chunk { stderr, bytes }).filter(|chunk| !chunk.bytes.is_empty()));
            }
        }
        Ok(None)
    }

    fn lengths(&mut self) -> io::Result<[u64; 2]> {
        let mut lengths = [0; 2];
        for ((stream, name), length) in self.streams.iter_mut().zip([STDOUT, STDERR]).zip(&mut lengths) {
            if self.which.shows(name == STDERR) {
                *length = stream.length(&self.dir, name)?;
            }
        }
        Ok(lengths)
    }

    fn read_in_order(&mut self, max: u64) -> io::Result<Option<Chunk>> {
        if self.order.is_none() {
            self.order = open_order(&self.dir)?;
        }
        let Some(order) = &self.order else { return Ok(None) };
        loop {
            // The length before the stretch: when another follows, this one has got all it will ever have.
            let is_last = order.metadata()?.len() < self.stretch_at + 2 * RECORD;
            let stretch = stretch_at(order, self.stretch_at)?.filter(|stretch| stretch.length > 0);
            let Some(Stretch { stderr, length }) = stretch else { return Ok(None) };
            self.is_ordered = true;
            let stream = &mut self.streams[usize::from(stderr)];
            let known = stream.ahead.min(length.saturating_sub(self.in_stretch));
            stream.ahead -= known;
            self.in_stretch += known;
            // A copy that is opened again is cut to what its order knows, while somebody reads it.
            let left = length.saturating_sub(self.in_stretch);
            if left > 0 {
                let bytes = stream.read(left.min(max))?;
                if !bytes.is_empty() {
                    self.in_stretch += bytes.len() as u64;
                    return Ok(Some(Chunk { stderr, bytes }));
                }
                // Somebody cut the log: what the order tells of is not there any more.
                self.in_stretch = length;
            }
            if is_last {
                return Ok(None);
            }
            self.stretch_at += RECORD;
            self.in_stretch = 0;
        }
    }

    /// Goes to where a reader stood who has had this many bytes of each stream.
    pub fn resume(&mut self, stdout: u64, stderr: u64) {
        for (stream, had) in self.streams.iter_mut().zip([stdout, stderr]) {
            (stream.position, stream.ahead) = (had, had);
        }
    }

    /// Goes to where the last `lines` lines begin, or [`MOST_TAIL_BYTES`] back.
    pub fn tail(&mut self, lines: usize) -> io::Result<()> {
        self.tail_within(lines, MOST_TAIL_BYTES)
    }

    /// The same, but not much further back than so many bytes: a line may be as long as the log.
    pub fn tail_within(&mut self, lines: usize, bytes: u64) -> io::Result<()> {
        let lengths = self.lengths()?;
        self.order = if self.which == Which::Both { open_order(&self.dir)? } else { None };
        let mut back = Backwards { left: lines as u64, bytes, at_end: true };
        for (stream, length) in self.streams.iter_mut().zip(lengths) {
            (stream.position, stream.ahead) = (length, 0);
        }
        let Some(mut stretch) = self.go_to_end_of_order()? else { return self.tail_without_order(&mut back) };
        loop {
            let stream = &mut self.streams[usize::from(stretch.stderr)];
            let taken = back.step(stream, stretch.length)?;
            self.in_stretch = stretch.length - taken;
            if taken < stretch.length || back.is_done() || self.stretch_at == FIRST {
                return Ok(());
            }
            self.stretch_at -= RECORD;
            let Some(order) = &self.order else { return Ok(()) };
            stretch = stretch_at(order, self.stretch_at)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        }
    }

    /// Goes back by up to `bytes` from the end. For the shim of the run alone, in whose hands logs and order agree.
    pub fn back(&mut self, bytes: u64) -> io::Result<()> {
        let lengths = self.lengths()?;
        self.order = open_order(&self.dir)?;
        for (stream, length) in self.streams.iter_mut().zip(lengths) {
            (stream.position, stream.ahead) = (length, 0);
        }
        let mut left = bytes;
        let Some(order) = &self.order else {
            for stream in self.streams.iter_mut().rev() {
                left -= stream.retreat(left);
                stream.ahead = stream.position;
            }
            return Ok(());
        };
        self.stretch_at = order.metadata()?.len().saturating_sub(FIRST) / RECORD * RECORD + FIRST;
        while self.stretch_at > FIRST {
            self.stretch_at -= RECORD;
            let stretch = stretch_at(order, self.stretch_at)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if stretch.length == 0 {
                break;
            }
            let taken = self.streams[usize::from(stretch.stderr)].retreat(left.min(stretch.length));
            left -= taken;
            self.in_stretch = stretch.length - taken;
            if left == 0 || taken < stretch.length {
                break;
            }
        }
        Ok(())
    }

    /// Puts both streams where the order ends, so that walking it backwards meets the right bytes: a log may be ahead
    /// of the order. Returns the last stretch as it is now, for it may grow.
    fn go_to_end_of_order(&mut self) -> io::Result<Option<Stretch>> {
        let Some(order) = &self.order else { return Ok(None) };
        let (mut totals, mut last) = ([0; 2], None);
        let (mut at, mut block) = (FIRST, vec![0; BLOCK_BYTES as usize]);
        'all: loop {
            let count = order.read_at(&mut block, at)? as u64 / RECORD * RECORD;
            if count == 0 {
                break;
            }
            for bytes in block[..count as usize].chunks_exact(RECORD as usize) {
                let stretch = Stretch::from_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                // No stretch is empty. A job can append zeros without end that take no disk, and they must not be read.
                if stretch.length == 0 {
                    break 'all;
                }
                totals[usize::from(stretch.stderr)] += stretch.length;
                last = Some(stretch);
                at += RECORD;
            }
        }
        if last.is_some() {
            // The lengths of now, since the order may have grown; and no more than them, since a log may be cut.
            let lengths = self.lengths()?;
            if lengths.iter().zip(totals).any(|(length, total)| length.saturating_sub(total) > MOST_AHEAD) {
                // The job wrote to its log itself: the order does not tell of the end.
                return Ok(None);
            }
            self.stretch_at = at - RECORD;
            for (index, length) in lengths.into_iter().enumerate() {
                self.streams[index].position = length.min(totals[index]);
            }
        }
        Ok(last)
    }

    fn tail_without_order(&mut self, back: &mut Backwards) -> io::Result<()> {
        let which = self.which;
        for stderr in [true, false].into_iter().filter(|stderr| which.shows(*stderr)) {
            let stream = &mut self.streams[usize::from(stderr)];
            if !back.is_done() {
                back.step(stream, stream.position)?;
            }
            stream.ahead = stream.position;
        }
        Ok(())
    }
}

fn stretch_at(order: &File, at: u64) -> io::Result<Option<Stretch>> {
    let mut bytes = [0; RECORD as usize];
    let count = order.read_at(&mut bytes, at)?;
    Ok((count == bytes.len()).then(|| Stretch::from_bytes(bytes)))
}

/// Counts lines from the end.
struct Backwards {
    left: u64,
    /// So many are looked at, at most.
    bytes: u64,
    /// Nothing was read yet: a line end here ends the last line and begins none.
    at_end: bool,
}

impl Backwards {
    fn is_done(&self) -> bool {
        self.left == 0 || self.bytes == 0
    }

    /// Moves a stream back by up to `length` bytes, to the beginning of a line if enough have been met. Returns how
    /// far.
    fn step(&mut self, stream: &mut Stream, length: u64) -> io::Result<u64> {
        let Some(file) = &stream.file else { return Ok(length) };
        let end = stream.position;
        let begin = end.saturating_sub(length);
        let mut block = Vec::new();
        while stream.position > begin && !self.is_done() {
            let from = stream.position.saturating_sub(BLOCK_BYTES).max(begin);
            block.resize((stream.position - from) as usize, 0);
            file.read_exact_at(&mut block, from)?;
            for (index, byte) in block.iter().enumerate().rev() {
                let ends_line = *byte == b'\n' && !self.at_end;
                self.at_end = false;
                self.left -= u64::from(ends_line);
                if self.left == 0 {
                    stream.position = from + index as u64 + 1;
                    return Ok(end - stream.position);
                }
            }
            stream.position = from;
            self.bytes = self.bytes.saturating_sub(block.len() as u64);
        }
        Ok(end - stream.position)
    }
}
