"""What Hydra knows of the launcher: its settings, and the class that it calls.

Hydra reads this file whenever it starts, for any launcher: all that takes time is in `_launch`. It does so before Python
knows the module by name, so annotations must be types here and not texts.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class NexusLauncherConf:
    """Options of `nexus add` for each run, and two of `nexus sweep`. What is null is as nexus has it."""

    _target_: str = "hydra_plugins.hydra_nexus_launcher.nexus_launcher.NexusLauncher"

    # GPUs of each run: whole ones, a part of one, or 0 for the CPU.
    gpus: float = 1
    # Memory of a GPU that it shares with others: 8G, or auto.
    vram: Optional[str] = None
    cpus: Optional[int] = None
    ram: Optional[str] = None
    gpu_model: Optional[str] = None
    # GPUs that it may use: 0-3,5.
    on: Optional[str] = None
    # A run is ended after this time: 4h.
    time: Optional[str] = None
    signal: Optional[str] = None
    grace: Optional[str] = None
    retries: int = 0
    # timeout: tried again after that too.
    retry_on: Optional[str] = None
    # Lower runs first.
    priority: int = 0
    project: Optional[str] = None
    tags: List[str] = field(default_factory=list)
    env: Dict[str, str] = field(default_factory=dict)
    # Another machine must see the same files.
    machine: Optional[str] = None
    machine_class: Optional[str] = None
    # Of the sweep that the runs are; nexus makes one up where it is null.
    name: Optional[str] = None
    # So many runs at once, at most.
    max_running: Optional[int] = None
    # The home of the service: NEXUS_HOME, or ~/.nexus, where it is null.
    home: Optional[str] = None


ConfigStore.instance().store(group="hydra/launcher", name="nexus", node=NexusLauncherConf, provider="nexus_launcher")


class NexusLauncher(Launcher):
    """Queues each run as a job and returns what became of all of them, in their order."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.config: Optional[DictConfig] = None
        self.hydra_context: Optional[HydraContext] = None
        self.task_function: Optional[TaskFunction] = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config
        self.hydra_context = hydra_context
        self.task_function = task_function

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from . import _launch

        assert self.config is not None and self.hydra_context is not None and self.task_function is not None
        multirun = _launch.Multirun(self.config, self.hydra_context, self.task_function, self.settings)
        return multirun.launch([list(overrides) for overrides in job_overrides], initial_job_idx)
