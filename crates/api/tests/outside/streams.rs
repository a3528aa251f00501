//! Any bytes as frames of a followed log and of a terminal. The first byte says in which parts the rest comes: nothing may
//! hang on that, and what is written again is read as the same.

use nexus_api::log::{BadFrame, Frame, Frames, Place};
use nexus_api::terminal::{FromShim, FromViewer};

pub fn hold(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let size = usize::from(*size).max(1);
    let (frames, end) = heard(bytes, bytes.len().max(1));
    assert_eq!((&frames, end), (&heard(bytes, size).0, heard(bytes, size).1));
    let written: Vec<u8> = frames.iter().flat_map(Frame::to_bytes).collect();
    assert_eq!(heard(&written, size), (frames.clone(), None));
    let place = frames.iter().fold(Place::START, Place::after);
    assert_eq!(place.to_string().parse(), if place.attempt == 0 { Err(BadFrame::Place) } else { Ok(place) });
    terminal(bytes, size, FromViewer::take_from, FromViewer::append_to);
    terminal(bytes, size, FromShim::take_from, FromShim::append_to);
}

/// The frames of a log, up to what cannot be read.
fn heard(bytes: &[u8], size: usize) -> (Vec<Frame>, Option<BadFrame>) {
    let (mut frames, mut heard) = (Frames::default(), Vec::new());
    for part in bytes.chunks(size) {
        frames.push(part);
        loop {
            match frames.next_frame() {
                Ok(Some(frame)) => heard.push(frame),
                Ok(None) => break,
                Err(bad) => return (heard, Some(bad)),
            }
        }
    }
    (heard, None)
}

fn terminal<F: PartialEq + std::fmt::Debug, E>(
    bytes: &[u8],
    size: usize,
    take: impl Fn(&mut Vec<u8>) -> Result<Option<F>, E>,
    append: impl Fn(&F, &mut Vec<u8>),
) {
    let frames = |bytes: &[u8], size: usize| {
        let (mut arrived, mut seen) = (Vec::new(), Vec::new());
        for part in bytes.chunks(size) {
            arrived.extend_from_slice(part);
            loop {
                match take(&mut arrived) {
                    Ok(Some(frame)) => seen.push(frame),
                    Ok(None) => break,
                    Err(_) => return (seen, true),
                }
            }
        }
        (seen, false)
    };
    let whole = frames(bytes, bytes.len().max(1));
    assert_eq!(frames(bytes, size), whole);
    let mut written = Vec::new();
    whole.0.iter().for_each(|frame| append(frame, &mut written));
    let (again, bad) = frames(&written, size);
    // An empty output or input is none, and is not sent.
    let kept: Vec<F> = whole
        .0
        .into_iter()
        .filter(|frame| {
            let mut bytes = Vec::new();
            append(frame, &mut bytes);
            !bytes.is_empty()
        })
        .collect();
    assert_eq!((again, bad), (kept, false));
}
