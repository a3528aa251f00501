//! Whether a run that failed did so for want of memory: the GPU's, by what it printed last, or the machine's, by the
//! kernel's word. Asked once, at the end, and only of runs that failed by themselves.

use std::path::Path;
use std::time::Instant;

use nexus_api::run_dir::{Cause, ExitStatus, Oom, RunSpec, STDERR, STDOUT};

use super::watch::End;
use crate::kernel_log;
use crate::memory_group::MemoryGroup;
use crate::run_file;

/// So much of the end of each stream is looked at.
const LAST_BYTES: u64 = 16 << 10;

/// What a shell makes of a command that was killed.
const KILLED_CODE: i32 = 128 + libc::SIGKILL;

/// The variable that names a run's GPUs.
const GPUS_VARIABLE: &str = "NEXUS_GPU_ID";

/// What frameworks print when a GPU has no memory left: all words of a row, in small letters, stand in one line.
const GPU_MESSAGES: &[&[&str]] = &[
    // PyTorch, and what is built on it.
    &["cuda out of memory"],
    &["hip out of memory"],
    &["xpu out of memory"],
    &["cuda error: out of memory"],
    &["hip error: out of memory"],
    &["torch.outofmemoryerror: "],
    &["torch.cuda.outofmemoryerror: "],
    // The driver's and the runtime's own names: CuPy, Numba, TensorFlow, XGBoost, RAPIDS.
    &["cuda_error_out_of_memory"],
    &["cudaerrormemoryallocation"],
    &["hiperroroutofmemory"],
    &["cudamalloc", "out of memory"],
    &["hipmalloc", "out of memory"],
    &["cuda failure", "out of memory"],
    &["out_of_memory: rmm failure"],
    &["cupy", "outofmemoryerror", "out of memory allocating"],
    // Libraries that could not get their work space.
    &["cublas_status_alloc_failed"],
    &["cudnn_status_alloc_failed"],
    &["cudnn_status_internal_error_device_allocation_failed"],
    &["cusolver_status_alloc_failed"],
    &["cusparse_status_alloc_failed"],
    &["cufft_alloc_failed"],
    // TensorFlow names the device, which may be the CPU.
    &["oom when allocating", "gpu"],
    // JAX and all of XLA.
    &["resource_exhausted: out of memory"],
    &["resourceexhaustederror", "out of memory", "gpu"],
    &["out of memory error on gpu"],
    // vLLM, before it serves anything.
    &["no available memory for the cache blocks"],
    &["free memory on device", "is less than desired gpu memory utilization"],
];

/// What is known of a run beside its end.
pub struct Evidence {
    has_gpus: bool,
    start: Instant,
}

impl Evidence {
    pub fn new(spec: &RunSpec, start: Instant) -> Evidence {
        let has_gpus = spec.env.get(GPUS_VARIABLE).is_some_and(|gpus| !gpus.is_empty());
        Evidence { has_gpus, start }
    }

    /// Which memory the run failed for want of, if anything tells.
    pub fn judge(&self, end: &End, memory: Option<&MemoryGroup>, dir: &Path) -> Option<Oom> {
        let was_killed = match end.status {
            ExitStatus::Exited { code } if code != 0 => code == KILLED_CODE,
            ExitStatus::Signaled { signal } => signal == libc::SIGKILL,
            _ => return None,
        };
        if end.cause != Cause::Own {
            return None;
        }
        let gpu = || (self.has_gpus && printed_of_gpu_memory(dir)).then_some(Oom::Gpu);
        let host = || self.kernel_killed(end, memory).then_some(Oom::Host);
        // One that was killed did not end by what it had printed.
        if was_killed { host().or_else(gpu) } else { gpu().or_else(host) }
    }

    fn kernel_killed(&self, end: &End, memory: Option<&MemoryGroup>) -> bool {
        match memory {
            Some(group) => group.has_killed(),
            None => !end.killed.is_empty() && kernel_log::killed_for_memory(&end.killed, self.start),
        }
    }
}

fn printed_of_gpu_memory(dir: &Path) -> bool {
    // A log that cannot be read says nothing.
    let end = |name: &&str| run_file::read_end(&dir.join(name), LAST_BYTES);
    [STDOUT, STDERR].iter().any(|name| end(name).is_ok_and(|bytes| tells_of_gpu_memory(&bytes)))
}

fn tells_of_gpu_memory(bytes: &[u8]) -> bool {
    let text = without_colours(&String::from_utf8_lossy(bytes)).to_ascii_lowercase();
    let tells = |line: &str| GPU_MESSAGES.iter().any(|words| words.iter().all(|word| line.contains(word)));
    text.split(['\n', '\r']).any(tells)
}

/// Without the sequences that colour a terminal's text, which may stand between its words.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split("\x1b[");
    plain.extend(parts.next());
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        plain.push_str(&part[end..]);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frameworks_say_that_the_gpu_is_full() {
        for text in [
            "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n\
             torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 23.6 GiB",
            "[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 8.00 GiB total)",
            "RuntimeError: CUDA out of memory. Tried to allocate 978.00 MiB\n\nwandb: Synced 5 W&B file(s)\n",
            "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 24.00 GiB.",
            "\x1b[1;91mOutOfMemoryError: \x1b[0m\x1b[1mCUDA\x1b[0m out of memory. Tried to allocate\r\n",
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with \
             shape[256,1024] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 128 bytes.",
            "E tensorflow/compiler/xla] failed to allocate 9.5G from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
            "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes (allocated so far: 0 bytes).",
            "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: out of memory",
            "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:pool_memory_resource.hpp: Maximum pool size exceeded",
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 12345.00 MiB on device 0: cudaMalloc failed: out of memory",
            "box:71:71 [0] enqueue.cc:1402 NCCL WARN Cuda failure 2 'out of memory'",
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
            "ResourceExhaustedError: \n\nOut of memory error on GPU 0. ResourceExhaustedError: Out of memory on GPU 0.",
        ] {
            assert!(tells_of_gpu_memory(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_only_sounds_like_it_is_something_else() {
        for text in [
            "",
            "out of memory",
            "MemoryError",
            "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
            "numpy.core._exceptions.MemoryError: Unable to allocate 7.28 TiB for an array with shape (1000000, 1000000)",
            "RuntimeError: [enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried",
            "ResourceExhaustedError: OOM when allocating tensor with shape[9] on /device:CPU:0 by allocator cpu",
            "grpc: status RESOURCE_EXHAUSTED: received message larger than max (5 vs. 4)",
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376",
            "    except torch.cuda.OutOfMemoryError:\nKeyError: 'loss'",
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED",
            "CUDA is there\nthe disk is out of memory cards",
            "Killed",
        ] {
            assert!(!tells_of_gpu_memory(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn only_the_end_of_a_log_counts() {
        let folder = tempfile::tempdir().unwrap();
        let message = "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n";
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        assert!(!printed_of_gpu_memory(folder.path()), "there are no logs");
        write(STDERR, message.into());
        write(STDOUT, "epoch 1\n".repeat(100_000));
        assert!(printed_of_gpu_memory(folder.path()), "each stream has an end of its own");
        write(STDERR, format!("{message}{}", "and then something else\n".repeat(1000)));
        assert!(!printed_of_gpu_memory(folder.path()), "that was long before");
    }
}
