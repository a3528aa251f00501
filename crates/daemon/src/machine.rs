//! The service's own host as a machine.

use nexus_core::ids::MachineId;
use nexus_core::machine::{Gpu, Machine};

/// Memory a simulated GPU claims to have.
const SIMULATED_MEMORY_MIB: u64 = 24 * 1024;

/// `local`, with `simulated` GPUs that do not exist.
pub fn local(simulated: u16) -> Machine {
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    Machine {
        id: MachineId::LOCAL,
        name: "local".into(),
        cpus: u16::try_from(cpus).unwrap_or(u16::MAX),
        gpus: (0..simulated)
            .map(|index| Gpu {
                index,
                uuid: format!("SIMULATED-{index}"),
                name: "Simulated GPU".into(),
                memory_mib: SIMULATED_MEMORY_MIB,
                simulated: true,
            })
            .collect(),
    }
}
