//! REGRESSIONS 2: drivers that are reset, hang, or cannot be initialised, and what `doctor` says of them.

use nexus_testkit::{FakeGpu, FakeGpus, Nexus, until};

use super::{ended, gpus, obstructed, service, takes_a_job, told_once, two, waits};
use crate::NEXUS;

/// What `nvidia-smi` prints of GPU a, and of no processes.
const SMI: &str = "case $1 in --query-gpu=*) \
    echo '0, GPU-aaaaaaaa-0000-0000-0000-000000000000, 24576, 7, 3, 41, 25.5, 580.65.06, [N/A], NVIDIA GeForce RTX 3090';; \
    esac";

/// The line of a check, and what mends it.
#[track_caller]
fn doctor(nexus: &Nexus, code: i32, check: &str) -> String {
    let seen = nexus.run_limited(&["doctor"]).expect_code(code).stdout;
    let from = seen.lines().skip_while(|line| line.split_whitespace().nth(1) != Some(check));
    from.take(2).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn reads_by(nexus: &Nexus, source: &str) {
    until(&format!("GPUs are read by {source}"), || {
        let service = nexus.json(&["doctor", "--json"])["service"].clone();
        (service["gpu_source"] == source && service["gpu_error"].is_null()).then_some(())
    });
}

#[test]
fn r02_a_driver_that_fails_loses_no_gpu_and_no_job() {
    let fake = FakeGpus::new(&two());
    let nexus = service(&fake);
    assert!(doctor(&nexus, 0, "driver").starts_with("ok    driver       version 580.65.06, read by NVML\n"));
    for (fault, words) in [("driver-gone", "driver is not loaded"), ("hang", "the driver has not answered for ")] {
        let runs = nexus.add("until [ -e gate ]; do sleep 0.02; done");
        nexus.in_state(&runs, "running");
        fake.set_fault(fault, &two());
        for index in [0, 1] {
            let error = obstructed(&nexus, index, "unreadable")["obstacle"]["error"].to_string();
            assert!(error.to_lowercase().contains(words), "{error}");
        }
        assert!(doctor(&nexus, 1, "driver").starts_with("bad   driver       GPUs cannot be read: "));
        assert!(doctor(&nexus, 1, "gpus").contains("2 GPUs, 2 cannot be read\n"));
        let next = nexus.add("true");
        waits(&nexus, &next, "needs 1 GPU: 1 held by jobs, 1 unreadable");
        nexus.in_state(&runs, "running");
        nexus.file("gate", "");
        assert_eq!(ended(&nexus, &runs)["state"], "completed");
        waits(&nexus, &next, "needs 1 GPU: 2 unreadable");
        fake.set(&two());
        assert_eq!(ended(&nexus, &next)["state"], "completed");
        until("both are back", || gpus(&nexus).iter().all(|gpu| gpu["obstacle"].is_null()).then_some(()));
        std::fs::remove_file(nexus.work().join("gate")).unwrap();
    }
    let log = nexus.service_log();
    for line in ["] GPU 0 cannot be read: ", "] GPU 1 cannot be read: ", "] GPU 0 is back\n", "] GPU 1 is back\n"] {
        assert_eq!(log.matches(line).count(), 2, "{line}\n{log}");
    }
}

#[test]
fn r02_nvidia_smi_stands_in_for_a_library_that_fails() {
    let gpu = [FakeGpu::new('a')];
    let fake = FakeGpus::new(&gpu);
    fake.set_fault("init-fails", &gpu);
    fake.set_smi(SMI);
    let nexus = service(&fake);
    takes_a_job(&nexus, 0);
    let told = gpus(&nexus)[0].clone();
    assert_eq!((&told["uuid"], &told["used_mib"]), (&FakeGpu::uuid_of('a').into(), &7.into()), "{told}");
    let seen = doctor(&nexus, 0, "driver");
    let says = "warn  driver       version 580.65.06, read by nvidia-smi: NVML cannot be loaded\n";
    assert!(seen.starts_with(says) && seen.contains("libnvidia-ml.so.1"), "{seen}");

    // It fails, and returns.
    fake.set_smi("echo \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\" >&2; exit 9");
    obstructed(&nexus, 0, "unreadable");
    let next = nexus.add("true");
    waits(&nexus, &next, "needs 1 GPU: 1 unreadable");
    assert!(doctor(&nexus, 1, "driver").contains("couldn't communicate"));
    fake.set_smi(SMI);
    assert_eq!(ended(&nexus, &next)["state"], "completed");

    // So does the library, at once the better of the two.
    fake.set(&gpu);
    reads_by(&nexus, "nvml");
    takes_a_job(&nexus, 0);
    fake.set_fault("driver-gone", &gpu);
    reads_by(&nexus, "nvidia-smi");
    takes_a_job(&nexus, 0);
    told_once(&nexus, &["] Found 1 GPU\n", "] GPU 0 cannot be read: ", "] GPU 0 is back\n"]);
}

#[test]
fn r02_a_driver_that_cannot_be_asked_at_all_is_found_later() {
    let gpu = [FakeGpu::new('a')];
    let fake = FakeGpus::new(&gpu);
    fake.set_fault("init-fails", &gpu);
    let nexus = service(&fake);
    let status = nexus.ok(&["status"]);
    assert!(status.contains("\nGPUs: cannot be read: NVML: ") && status.contains("there is no nvidia-smi"), "{status}");
    assert!(nexus.ok(&["gpus"]).starts_with("GPUs cannot be read: NVML: "));
    assert!(doctor(&nexus, 1, "driver").starts_with("bad   driver       GPUs cannot be read: NVML: "));
    let added = nexus.run(&["add", "true"]).expect_code(0);
    assert!(added.stderr.contains("GPUs cannot be read") && !added.stderr.contains("no GPU here"), "{added}");
    let id = added.stdout.trim_end();
    assert_eq!(nexus.job(id)["state"], "queued");
    let on_cpu = nexus.add_with(&["--gpus", "0"], "true");
    assert_eq!(ended(&nexus, &on_cpu)["state"], "completed", "who needs no GPU does not wait");
    fake.set(&gpu);
    assert_eq!(ended(&nexus, id)["state"], "completed");
    told_once(&nexus, &["] GPUs cannot be read: NVML: ", "] Found 1 GPU\n"]);
}

#[test]
fn a_machine_without_a_driver_is_no_fault() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.ok(&["start"]);
    assert!(doctor(&nexus, 0, "driver").starts_with("warn  driver       there is no NVIDIA driver\n"));
    assert!(doctor(&nexus, 0, "gpus").starts_with("warn  gpus         none found\n"));
    let added = nexus.run(&["add", "true"]).expect_code(0);
    assert!(added.stderr.contains("there is no GPU here: the job waits for one"), "{added}");
    let id = added.stdout.trim_end();
    waits(&nexus, id, "needs 1 GPU, there are none: --gpus 0 runs on the CPU");
}
