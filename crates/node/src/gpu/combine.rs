//! Makes one reading of what the cards answered and what is known from before. Asks nothing itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::nvml::{CardRead, Fault};
use super::smi::SmiRead;
use super::{GpuSeen, GpuState, Reading, Source};

/// How far a card is with its answer.
#[derive(Debug)]
pub enum Answer {
    Read(CardRead),
    /// Asked so long ago, without an answer yet.
    Waiting(Duration),
}

/// The words for a call that takes too long.
pub fn unanswered(age: Duration) -> String {
    format!("the driver has not answered for {} s", age.as_secs().max(1))
}

/// A reading by NVML. A card that does not answer is shown as it was until `deadline` is over.
pub fn by_nvml(
    answers: BTreeMap<u16, Answer>,
    driver: Option<String>,
    deadline: Duration,
    last: Option<&Reading>,
) -> Reading {
    let known = last.map_or(&[][..], |last| &last.gpus);
    let mut gpus: Vec<GpuSeen> =
        answers.into_iter().map(|(index, answer)| card(index, answer, deadline, known)).collect();
    keep_missing(&mut gpus, known, "it is no longer there");
    Reading { gpus, source: Some(Source::Nvml), driver, error: None }
}

pub fn by_smi(read: SmiRead, last: Option<&Reading>) -> Reading {
    let known = last.map_or(&[][..], |last| &last.gpus);
    let mut gpus = read.gpus;
    for gpu in gpus.iter_mut().filter(|gpu| matches!(gpu.state, GpuState::Unreadable { .. })) {
        let Some(before) = same(known, gpu.index, Some(&gpu.uuid).filter(|uuid| !uuid.is_empty())) else { continue };
        gpu.uuid.clone_from(&before.uuid);
        gpu.name.clone_from(&before.name);
        gpu.memory_mib = before.memory_mib;
    }
    keep_missing(&mut gpus, known, read.complaint.as_deref().unwrap_or("it is no longer there"));
    Reading { gpus, source: Some(Source::Smi), driver: read.driver, error: read.complaint }
}

/// Nothing could be asked: all that is known is unreadable.
pub fn by_nobody(error: String, source: Option<Source>, last: Option<&Reading>) -> Reading {
    let mut gpus = Vec::new();
    keep_missing(&mut gpus, last.map_or(&[][..], |last| &last.gpus), &error);
    Reading { gpus, source, driver: last.and_then(|last| last.driver.clone()), error: Some(error) }
}

fn card(index: u16, answer: Answer, deadline: Duration, known: &[GpuSeen]) -> GpuSeen {
    let read = match answer {
        Answer::Read(read) => read,
        Answer::Waiting(age) => {
            let before = known.iter().find(|gpu| gpu.index == index);
            match before.filter(|_| age < deadline) {
                Some(before) => return before.clone(),
                None => CardRead::failed(Fault::Card(unanswered(age))),
            }
        }
    };
    let before = same(known, index, read.uuid.as_ref());
    let state = read.state.unwrap_or_else(|fault| match fault {
        Fault::Card(error) | Fault::Library(error) => GpuState::Unreadable { error },
    });
    GpuSeen {
        index,
        uuid: read.uuid.or_else(|| before.map(|gpu| gpu.uuid.clone())).unwrap_or_default(),
        name: read.name.or_else(|| before.map(|gpu| gpu.name.clone())).unwrap_or_default(),
        memory_mib: read.memory_mib.or_else(|| before.map(|gpu| gpu.memory_mib)).unwrap_or(0),
        state,
    }
}

/// What is known of a GPU that perhaps did not say who it is.
fn same<'a>(known: &'a [GpuSeen], index: u16, uuid: Option<&String>) -> Option<&'a GpuSeen> {
    known.iter().find(|gpu| gpu.index == index && uuid.is_none_or(|uuid| *uuid == gpu.uuid))
}

/// Adds GPUs that were there before and are not now, unless another has their number.
fn keep_missing(gpus: &mut Vec<GpuSeen>, known: &[GpuSeen], error: &str) {
    let is_missing = |before: &&GpuSeen| {
        gpus.iter().all(|gpu| gpu.index != before.index && (gpu.uuid != before.uuid || gpu.uuid.is_empty()))
    };
    let missing: Vec<GpuSeen> = known.iter().filter(is_missing).cloned().collect();
    let unreadable = GpuState::Unreadable { error: error.to_owned() };
    gpus.extend(missing.into_iter().map(|gpu| GpuSeen { state: unreadable.clone(), ..gpu }));
    gpus.sort_by_key(|gpu| gpu.index);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Vitals;

    const DEADLINE: Duration = Duration::from_secs(10);

    fn read(uuid: &str, used_mib: u64) -> Answer {
        Answer::Read(CardRead {
            uuid: Some(uuid.into()),
            name: Some("RTX 3090".into()),
            memory_mib: Some(24_576),
            state: Ok(GpuState::Read(Vitals { used_mib, ..Vitals::default() })),
        })
    }

    fn look(answers: Vec<Answer>, last: Option<&Reading>) -> Reading {
        by_nvml((0..).zip(answers).collect(), None, DEADLINE, last)
    }

    /// Index, UUID, and memory used or why not.
    fn told(reading: &Reading) -> Vec<(u16, &str, String)> {
        let state = |gpu: &GpuSeen| match &gpu.state {
            GpuState::Read(vitals) => vitals.used_mib.to_string(),
            GpuState::Mig => "mig".into(),
            GpuState::Unreadable { error } => error.clone(),
        };
        reading.gpus.iter().map(|gpu| (gpu.index, gpu.uuid.as_str(), state(gpu))).collect()
    }

    #[test]
    fn a_card_that_fails_keeps_its_name() {
        let first = look(vec![read("a", 1), read("b", 2)], None);
        let lost = CardRead::failed(Fault::Card("lost".into()));
        let second = look(vec![Answer::Read(lost), read("b", 3)], Some(&first));
        assert_eq!(told(&second), [(0, "a", "lost".into()), (1, "b", "3".into())]);
        assert_eq!((second.gpus[0].name.as_str(), second.gpus[0].memory_mib), ("RTX 3090", 24_576));
        let unknown = look(vec![Answer::Read(CardRead::failed(Fault::Card("lost".into())))], None);
        assert_eq!(told(&unknown), [(0, "", "lost".into())]);
    }

    #[test]
    fn a_slow_card_is_as_it_was_until_the_deadline() {
        let first = look(vec![read("a", 1), read("b", 2)], None);
        let slow = |seconds| vec![Answer::Waiting(Duration::from_secs(seconds)), read("b", 3)];
        assert_eq!(told(&look(slow(9), Some(&first))), [(0, "a", "1".into()), (1, "b", "3".into())]);
        let late = look(slow(10), Some(&first));
        assert_eq!(told(&late)[0], (0, "a", "the driver has not answered for 10 s".into()));
        assert_eq!(told(&look(slow(2), None))[0], (0, "", "the driver has not answered for 2 s".into()));
    }

    #[test]
    fn a_missing_gpu_stays_unless_its_number_is_taken() {
        let first = look(vec![read("a", 1), read("b", 2)], None);
        let gone = look(vec![read("a", 1)], Some(&first));
        assert_eq!(told(&gone)[1], (1, "b", "it is no longer there".into()));
        assert_eq!(told(&look(vec![read("a", 1)], Some(&gone))).len(), 2, "for good");
        let moved = look(vec![read("b", 2)], Some(&first));
        assert_eq!(told(&moved), [(0, "b", "2".into())], "a's number is b's now");
        let other = look(vec![read("a", 1), read("c", 5)], Some(&gone));
        assert_eq!(told(&other), [(0, "a", "1".into()), (1, "c", "5".into())]);
    }

    #[test]
    fn without_a_driver_all_known_gpus_are_unreadable() {
        let first = look(vec![read("a", 1)], None);
        let none = by_nobody("gone".into(), None, Some(&first));
        assert_eq!((told(&none), none.error.as_deref()), (vec![(0, "a", "gone".into())], Some("gone")));
        let lost = GpuState::Unreadable { error: "lost".into() };
        let seen = GpuSeen { index: 0, uuid: String::new(), name: String::new(), memory_mib: 0, state: lost };
        let smi = by_smi(SmiRead { gpus: vec![seen], driver: None, complaint: None }, Some(&first));
        assert_eq!((told(&smi), smi.gpus[0].memory_mib), (vec![(0, "a", "lost".into())], 24_576));
    }
}
