"""A batch of a multirun as one sweep of nexus: each run composes its configuration in its job, so that the first starts at
once. However this process is asked to end, the jobs are ended first.
"""

from __future__ import annotations

import concurrent.futures as futures
import logging
import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, run_job, setup_globals
from hydra.types import HydraContext, TaskFunction
from nexus_gpu import Client, Executor, JobFuture
from nexus_gpu.executor import AsSweep, Call
from omegaconf import DictConfig, OmegaConf, open_dict

log = logging.getLogger(__name__)

# Settings that are not options of a job.
OF_THE_SWEEP = ("name", "max_running", "home")


class RunFailed(Exception):
    """A run whose task raised something: the job is a failed one then, and Hydra gets its account of it all the same."""

    def __init__(self, account: JobReturn) -> None:
        super().__init__(account)
        self.account = account

    def __str__(self) -> str:
        return f"the run {' '.join(self.account.overrides or [])} failed"


class Multirun:
    """What its runs have in common."""

    def __init__(
        self, config: DictConfig, context: HydraContext, task: TaskFunction, settings: Dict[str, Any]
    ) -> None:
        self.config = config
        self.context = context
        self.task = task
        self.settings = {name: _plain(value) for name, value in settings.items()}

    def launch(self, batch: List[List[str]], first: int) -> List[JobReturn]:
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        Path(str(self.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        with _ended_by_signals(), Executor(client=Client(self.settings["home"]), **self._options()) as executor:
            try:
                runs = executor.submit_calls(self._calls(batch, first), self._sweep(first))
                if runs:
                    self._tell_begin(batch, runs, first)
                _tell_ends(runs, first)
            except BaseException:
                log.warning("ending the jobs of this multirun (once more to leave at once)")
                executor.end()
                raise
        return [self._account(run, overrides, first + at) for at, (run, overrides) in enumerate(zip(runs, batch))]

    def _calls(self, batch: List[List[str]], first: int) -> List[Call]:
        state = Singleton.get_state()
        calls = []
        for at, overrides in enumerate(batch):
            args = (self.context, self.config, self.task, state, overrides, first + at)
            calls.append(Call(run_in_job, args, {}, " ".join(filter_overrides(overrides))))
        return calls

    def _options(self) -> Dict[str, Any]:
        return {name: value for name, value in self.settings.items() if name not in OF_THE_SWEEP and value is not None}

    def _sweep(self, first: int) -> AsSweep:
        name = self.settings["name"]
        # A sweeper that launches several batches makes several sweeps of them, and no two have one name.
        named = name and (f"{name}-{first}" if first else name)
        return AsSweep(str(self.config.hydra.job.name), named, self.settings["max_running"])

    def _tell_begin(self, batch: List[List[str]], runs: "List[JobFuture[JobReturn]]", first: int) -> None:
        name = runs[0].job.data.get("sweep")
        log.info("%d runs as jobs of nexus (nexus sweep show %s; nexus cancel sweep:%s)", len(runs), name, name)
        for at, (overrides, run) in enumerate(zip(batch, runs)):
            log.info("\t#%d %s : %s", first + at, run.job.id, " ".join(filter_overrides(overrides)))


    def _account(self, run: "JobFuture[JobReturn]", overrides: List[str], number: int) -> JobReturn:
        """What became of a run, as Hydra has it: what its task raised comes up when somebody asks for its value."""
        try:
            return run.result()
        except RunFailed as failed:
            failed.account._return_value.__cause__ = failed.__cause__
            return failed.account
        except (Exception, futures.CancelledError) as error:
            # It never came to its end: killed, lost, or something of it could not be sent.
            config = compose(self.context, self.config, overrides, number, run.job.id)
            account = JobReturn(overrides=overrides, task_name=str(config.hydra.job.name), status=JobStatus.FAILED)
            account.cfg, account.hydra_cfg = _parts(config)
            account.return_value = run.job.failure() if isinstance(error, futures.CancelledError) else error
            return account


def compose(context: HydraContext, config: DictConfig, overrides: List[str], number: int, id: str) -> DictConfig:
    """The configuration of one run."""
    composed = context.config_loader.load_sweep_config(config, overrides)
    with open_dict(composed):
        composed.hydra.job.num = number
        composed.hydra.job.id = id
    return composed


def run_in_job(
    context: HydraContext, config: DictConfig, task: TaskFunction, state: Dict[Any, Any], overrides: List[str], number: int
) -> JobReturn:
    """One run, in its job: Hydra as it was where the multirun began."""
    setup_globals()
    Singleton.set_state(state)
    composed = compose(context, config, overrides, number, os.environ["NEXUS_JOB_ID"])
    HydraConfig.instance().set_config(composed)
    account = run_job(
        hydra_context=context,
        task_function=task,
        config=composed,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
    if account.status is JobStatus.FAILED:
        raise RunFailed(account) from account._return_value
    return account


def _tell_ends(runs: "List[JobFuture[JobReturn]]", first: int) -> None:
    """Returns when all have ended."""
    numbers: "Dict[Any, int]" = {run: first + at for at, run in enumerate(runs)}
    run: Any
    for run in futures.as_completed(numbers):
        log.info("\t#%d %s %s", numbers[run], run.job.id, run.job.state)


def _parts(config: DictConfig) -> "tuple[DictConfig, DictConfig]":
    """The task's own configuration, and Hydra's."""
    task, ours = config.copy(), OmegaConf.masked_copy(config, "hydra")
    with open_dict(task):
        del task["hydra"]
    return task, ours


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM leads out as Ctrl-C does, past all that has to be ended."""

    def leave(number: int, _frame: Optional[Any]) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
