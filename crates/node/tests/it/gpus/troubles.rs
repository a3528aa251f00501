//! A sick driver costs the GPUs it cannot read, and those only for as long as it is sick.

use std::sync::mpsc::channel;

use nexus_node::gpu::{Reading, Source};
use nexus_testkit::{FakeGpu, FakeGpus};

use super::{Watch, is_read, trouble, vitals};
use crate::stage::PATIENCE;

fn two() -> [FakeGpu; 2] {
    [FakeGpu::new('a'), FakeGpu::new('b')]
}

fn both_are_read(reading: &Reading) -> bool {
    reading.gpus.len() == 2 && reading.gpus.iter().all(is_read)
}

#[test]
fn a_lost_gpu_is_unreadable_until_it_returns() {
    let fake = FakeGpus::new(&two());
    let watch = Watch::over(&fake);
    watch.until("both", both_are_read);
    for (fault, words) in [("lost", "fell off the bus"), ("unknown", "unknown error")] {
        fake.set(&[FakeGpu::new('a').fault(fault), FakeGpu::new('b').with("used_mib", 77)]);
        let reading = watch.until(fault, |reading| trouble(&reading.gpus[0]).contains(words));
        let sick = &reading.gpus[0];
        assert_eq!((sick.index, &sick.uuid), (0, &FakeGpu::uuid_of('a')), "it is known from before");
        assert_eq!((sick.name.as_str(), sick.memory_mib), ("NVIDIA GeForce RTX 3090", 24_576));
        assert_eq!((reading.source, &reading.error), (Some(Source::Nvml), &None));
        watch.until("the other is read on", |reading| vitals(&reading.gpus[1]).used_mib == 77);
        fake.set(&two());
        watch.until("it is back", both_are_read);
    }
}

#[test]
fn a_gpu_that_is_lost_from_the_start_takes_its_place() {
    let fake = FakeGpus::new(&[FakeGpu::new('a').fault("lost"), FakeGpu::new('b')]);
    let reading = Watch::over(&fake).next();
    assert_eq!((reading.gpus[0].index, reading.gpus[0].uuid.as_str()), (0, ""));
    assert!(!trouble(&reading.gpus[0]).is_empty() && is_read(&reading.gpus[1]));
}

#[test]
fn a_gpu_that_vanished_is_shown_unless_another_has_its_number() {
    let fake = FakeGpus::new(&two());
    let watch = Watch::over(&fake);
    watch.until("both", both_are_read);
    fake.set(&[FakeGpu::new('a')]);
    let reading = watch.until("one is missing", |reading| trouble(&reading.gpus[1]) == "it is no longer there");
    assert_eq!(reading.gpus[1].uuid, FakeGpu::uuid_of('b'));
    fake.set(&[FakeGpu::new('a'), FakeGpu::new('c')]);
    let reading = watch.until("another", both_are_read);
    assert_eq!(reading.gpus[1].uuid, FakeGpu::uuid_of('c'));
}

#[test]
fn a_gpu_that_hangs_does_not_stop_the_others() {
    let fake = FakeGpus::new(&two());
    let watch = Watch::over(&fake);
    watch.until("both", both_are_read);
    fake.set(&[FakeGpu::new('a').fault("hang"), FakeGpu::new('b')]);
    let reading = watch.until("it hangs", |reading| trouble(&reading.gpus[0]).contains("has not answered for"));
    assert_eq!(reading.gpus[0].uuid, FakeGpu::uuid_of('a'));
    for used in [11, 22, 33] {
        fake.set(&[FakeGpu::new('a').fault("hang"), FakeGpu::new('b').with("used_mib", used)]);
        let reading = watch.until("the other is read on", |reading| vitals(&reading.gpus[1]).used_mib == used);
        assert!(trouble(&reading.gpus[0]).contains("has not answered for"), "{reading:?}");
    }
    fake.set(&[FakeGpu::new('a').with("used_mib", 5), FakeGpu::new('b')]);
    let reading = watch.until("it is back", both_are_read);
    assert_eq!(vitals(&reading.gpus[0]).used_mib, 5, "with what is so now");
}

#[test]
fn a_driver_that_hangs_makes_all_unreadable_until_it_answers() {
    let fake = FakeGpus::new(&two());
    let watch = Watch::over(&fake);
    watch.until("both", both_are_read);
    fake.set_fault("hang", &two());
    let hangs = |reading: &Reading| reading.gpus.iter().all(|gpu| trouble(gpu).contains("has not answered for"));
    let reading = watch.until("all hang", hangs);
    assert_eq!(reading.gpus.len(), 2);
    assert!(reading.error.is_some());
    fake.set(&two());
    watch.until("they are back", both_are_read);
}

#[test]
fn a_hanging_driver_does_not_keep_the_watcher_from_ending() {
    for hangs_from_the_start in [true, false] {
        let fake = FakeGpus::new(&two());
        if hangs_from_the_start {
            fake.set_fault("hang", &two());
        }
        let watch = Watch::over(&fake);
        if !hangs_from_the_start {
            watch.until("both", both_are_read);
            fake.set_fault("hang", &two());
        }
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            drop(watch);
            let _ = sender.send(());
        });
        ended.recv_timeout(PATIENCE).expect("it ends");
        // Lets the threads go that are still in the library.
        fake.set(&[]);
    }
}

/// Answers both queries as `nvidia-smi` does; the processes are in a file.
fn smi_script(used_mib: u64) -> String {
    format!(
        r#"case "$1" in
--query-gpu=*) echo "0, {}, 24576, {used_mib}, 5, 40, 100.00, 570.1, [N/A], NVIDIA GeForce RTX 3090"
    echo "1, {}, 24576, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], 570.1, [N/A], NVIDIA GeForce RTX 3090" ;;
--query-compute-apps=*) echo "{}, {}, 321" ;;
esac"#,
        FakeGpu::uuid_of('a'),
        FakeGpu::uuid_of('b'),
        FakeGpu::uuid_of('a'),
        std::process::id()
    )
}

#[test]
fn nvidia_smi_is_asked_while_the_library_cannot_be_initialised() {
    let fake = FakeGpus::new(&[]);
    fake.set_fault("init-fails", &two());
    fake.set_smi(&smi_script(500));
    let watch = Watch::over(&fake);
    let reading = watch.next();
    assert_eq!((reading.source, reading.driver.as_deref()), (Some(Source::Smi), Some("570.1")));
    let read = vitals(&reading.gpus[0]);
    assert_eq!((read.used_mib, read.processes[0].pid), (500, std::process::id()));
    assert_eq!(read.processes[0].memory_mib, Some(321));
    assert_eq!(trouble(&reading.gpus[1]), "nvidia-smi says: GPU is lost");
    fake.set(&two());
    let reading = watch.until("NVML is back", both_are_read);
    assert_eq!(reading.source, Some(Source::Nvml));
}

#[test]
fn r02_a_failing_nvidia_smi_ends_nothing() {
    let fake = FakeGpus::new(&[]);
    fake.set_fault("init-fails", &[]);
    fake.set_smi(&smi_script(500));
    let watch = Watch::over(&fake);
    assert!(is_read(&watch.next().gpus[0]));
    let failures = [
        (
            "echo 'NVIDIA-SMI has failed because it could not communicate with the driver' >&2; exit 9",
            "has failed because",
        ),
        ("sleep 600", "did not end within"),
        ("exit 3", "no output"),
        (&format!("case $1 in *apps*) exit 4;; esac\n{}", smi_script(500)), "cannot list processes"),
    ];
    for (script, words) in failures {
        fake.set_smi(script);
        let complains = |reading: &Reading| reading.error.as_deref().is_some_and(|error| error.contains(words));
        let reading = watch.until(words, complains);
        assert!(reading.gpus.len() == 2 && reading.gpus.iter().all(|gpu| !trouble(gpu).is_empty()), "{reading:?}");
        assert_eq!(reading.gpus[0].name, "NVIDIA GeForce RTX 3090");
        fake.set_smi(&smi_script(501));
        watch.until("it works again", |reading| is_read(&reading.gpus[0]));
    }
}

#[test]
fn an_nvidia_smi_that_does_not_know_mig_is_asked_without() {
    let fake = FakeGpus::new(&[]);
    fake.set_fault("init-fails", &[]);
    fake.set_smi(
        r#"case "$1" in *mig.mode*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2;; esac
case "$1" in --query-gpu=*) echo "0, GPU-1f, 11019, 5, 0, 30, 20.00, 418.87, GeForce RTX 2080 Ti";; esac"#,
    );
    let reading = Watch::over(&fake).next();
    assert_eq!(reading.gpus[0].name, "GeForce RTX 2080 Ti", "{reading:?}");
    fake.set_smi("echo 'No devices were found'; exit 6");
    let reading = Watch::over(&fake).next();
    assert_eq!((reading.gpus.len(), reading.source), (0, Some(Source::Smi)));
}

#[test]
fn a_machine_without_a_driver_has_no_gpus_until_it_gets_one() {
    let fake = FakeGpus::new(&two());
    let away = fake.library().with_extension("away");
    std::fs::rename(fake.library(), &away).unwrap();
    let watch = Watch::over(&fake);
    assert_eq!(watch.next(), Reading::default());
    assert_eq!(watch.next(), Reading::default());
    std::fs::rename(&away, fake.library()).unwrap();
    watch.until("the driver is found", both_are_read);
}

#[test]
fn a_driver_that_is_reset_is_found_again() {
    let fake = FakeGpus::new(&two());
    let watch = Watch::over(&fake);
    watch.until("both", both_are_read);
    for _ in 0..3 {
        fake.set_fault("driver-gone", &two());
        let reading = watch.until("it is gone", |reading| reading.error.is_some());
        assert!(reading.gpus.len() == 2 && reading.gpus.iter().all(|gpu| !trouble(gpu).is_empty()), "{reading:?}");
        fake.set(&two());
        watch.until("it is back", both_are_read);
    }
}
