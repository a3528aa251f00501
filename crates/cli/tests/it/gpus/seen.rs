//! What is shown of GPUs, and what a job knows of its own.

use nexus_testkit::{FakeGpu, FakeGpus, Nexus, until};
use serde_json::{Value, json};

use super::{LONG, ended, gpus, service, told_once, two};

#[test]
fn names_memory_and_uuids_are_those_of_the_driver() {
    let big = FakeGpu::new('b').with("name", "NVIDIA A100-SXM4-80GB").with("memory_mib", 81920).with("load", 97);
    let fake = FakeGpus::new(&[FakeGpu::new('a').with("used_mib", 2048), big.with("power_w", Value::Null)]);
    let nexus = service(&fake);
    let status = nexus.ok(&["status"]);
    let drawn = "\nGPUs:\nGPU 0 (RTX 3090, 24GB): Available\nGPU 1 (A100-SXM4-80GB, 80GB): Available";
    assert!(status.ends_with(drawn), "{status}");
    assert_eq!(
        nexus.ok(&["gpus"]),
        "\
[0] RTX 3090       |  30°C,   0 % | 2048 / 24576 MB |
[1] A100-SXM4-80GB |  30°C,  97 % |    1 / 81920 MB |"
    );
    let told = gpus(&nexus);
    let expected = json!({
        "index": 1, "uuid": FakeGpu::uuid_of('b'), "name": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920,
        "simulated": false, "jobs": [], "paused": false, "used_mib": 1, "load_percent": 97, "temperature_c": 30,
        "power_w": null, "processes": [], "obstacle": null,
    });
    assert_eq!(told[1], expected);
    assert_eq!(told[0]["uuid"], FakeGpu::uuid_of('a'));
    assert_eq!(nexus.json(&["status", "--json"])["machines"][0]["gpus"], Value::from(told));
    told_once(&nexus, &["] Service started\n", "] Found 2 GPUs\n"]);
}

#[test]
fn a_job_knows_its_gpus() {
    let fake = FakeGpus::new(&[FakeGpu::new('a'), FakeGpu::new('b'), FakeGpu::new('c')]);
    let nexus = service(&fake);
    let command = "echo $CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES $NEXUS_GPU_ID";
    for (options, gpus) in [(&["--on", "2"][..], "2"), (&["--gpus", "2", "--on", "0,2"], "0,2"), (&[], "0")] {
        let id = nexus.add_with(options, command);
        let job = ended(&nexus, &id);
        assert_eq!(nexus.stdout_of(&id), format!("PCI_BUS_ID {gpus} {gpus}\n"));
        let held: Vec<String> = job["gpus"].as_array().into_iter().flatten().map(Value::to_string).collect();
        assert_eq!((held.join(",").as_str(), &job["simulated"]), (gpus, &Value::Bool(false)), "{job}");
    }
}

/// The first process on GPU 0 that a reading tells of.
fn process(nexus: &Nexus) -> Option<Value> {
    gpus(nexus)[0]["processes"].get(0).cloned()
}

#[test]
fn the_process_of_a_job_is_the_jobs_and_nobody_elses() {
    let fake = FakeGpus::new(&two());
    let nexus = service(&fake);
    let id = nexus.add(LONG);
    let pid = nexus.in_state(&id, "running")["pid"].as_u64().expect("it runs");
    fake.set(&[FakeGpu::new('a').computes(pid as u32, 5000).with("load", 80), FakeGpu::new('b')]);
    let of_job =
        |process: &Value| process["pid"] == pid && process["job"] == id.as_str() && process["foreign"] == false;
    let told = until("its process is seen", || process(&nexus));
    assert!(of_job(&told), "{told}");
    assert_eq!(gpus(&nexus)[0]["obstacle"], Value::Null);
    let status = nexus.ok(&["status"]);
    assert!(status.contains("\n  Load: 80%, 4.9 of 24GB\n") && !status.contains("outside nexus"), "{status}");
    assert!(nexus.ok(&["gpus"]).contains(&format!("| 5001 / 24576 MB | {id} ")), "{}", nexus.ok(&["gpus"]));
    // A service that did not start it knows it too.
    for crash in [false, true] {
        if crash {
            nexus.kill_service();
            nexus.ok(&["start"]);
        } else {
            nexus.ok(&["restart"]);
        }
        let told = until("its process is seen again", || process(&nexus));
        assert!(of_job(&told), "{told}");
    }
    let next = nexus.add_with(&["--on", "0"], LONG);
    nexus.ok(&["kill", &id]);
    assert_eq!(nexus.in_state(&next, "running")["gpus"], json!([0]), "at once, whatever was read last");
    assert!(!nexus.service_log().contains("outside nexus"), "{}", nexus.service_log());
}
