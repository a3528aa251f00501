//! Bad input, full disks, strange homes: a clear message, nothing lost, the service lives.
