"""Machines for the measurements: an sshd each, on addresses of this machine's own, with one key for all."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

from stage import until

SSHD = "/usr/sbin/sshd"
PORT = 2222

# The host key is known under every name: nobody else is called with this configuration.
CLIENT = """Host *
  Port {port}
  IdentityFile {folder}/id
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
"""

SERVER = """HostKey {folder}/key
AuthorizedKeysFile {folder}/id.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
UseDNS no
PrintMotd no
"""


class Hosts:
    """host1, host2, …: each has its own address, sshd and folder. They share processes and disk of this machine."""

    def __init__(self, count, nvml):
        self.nvml = nvml
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ssh-"))
        self.names = [f"host{number}" for number in range(1, count + 1)]
        self.sshds = []
        if os.getuid() == 0:
            # As root it wants this folder for the time before anybody is let in.
            os.makedirs("/run/sshd", exist_ok=True)
        for key in ("id", "key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", self.folder / key]
            subprocess.run(words, check=True)
        public = (self.folder / "key.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"* {public[0]} {public[1]}\n")
        addresses = dict(zip(self.names, fresh_addresses()))
        aliases = "".join(f"Host {name}\n  HostName {address}\n" for name, address in addresses.items())
        (self.folder / "ssh_config").write_text(aliases + CLIENT.format(port=PORT, folder=self.folder))
        (self.folder / "sshd_config").write_text(SERVER.format(folder=self.folder))
        self.addresses = addresses

    def __enter__(self):
        for name, address in self.addresses.items():
            place = self.folder / name
            place.mkdir()
            # A home of its own: the rc files of whoever measures are no part of it.
            own = f"HOME={place} NEXUS_NVML={self.nvml} FAKE_NVML={place}/gpus.json NEXUS_GPU_LOCKS={place}/locks"
            options = [f"ListenAddress={address}:{PORT}", f"PidFile={place}/pid", f"SetEnv={own}"]
            told = [word for option in options for word in ("-o", option)]
            words = [SSHD, "-D", "-f", self.folder / "sshd_config", "-E", place / "log", *told]
            self.sshds.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))
        until("all sshd listen", lambda: all((self.folder / name / "pid").exists() for name in self.names))
        return self

    def __exit__(self, *_):
        for sshd in self.sshds:
            sshd.terminate()
        for sshd in self.sshds:
            sshd.wait()

    def known_to(self, home):
        home.run("config", "set", "ssh.args", f'["-F", "{self.folder}/ssh_config"]')

    def place(self, name, kind):
        """The folder that nexus is told to use there."""
        return self.folder / name / kind

    def set_gpus(self, count):
        """What the driver of each tells of its GPUs: other figures at every call."""
        for name in self.names:
            gpus = [
                {
                    "uuid": f"GPU-{name}-{index}",
                    "used_mib": random.randrange(20_000),
                    "load": random.randrange(100),
                    "temperature": random.randrange(30, 90),
                    "power_w": random.randrange(20, 400),
                }
                for index in range(count)
            ]
            path = self.folder / name / "gpus.json"
            path.with_suffix(".new").write_text(json.dumps({"gpus": gpus}))
            path.with_suffix(".new").rename(path)

    def share_binary(self, kind, there):
        """All machines have one copy of what was sent to the first one's folder of another kind."""
        shared = self.folder / "bin"
        shutil.move(self.place(self.names[0], there) / "bin", shared)
        for name in self.names:
            self.place(name, kind).mkdir()
            (self.place(name, kind) / "bin").symlink_to(shared)


def fresh_addresses():
    """Of this process's own: others may measure or test at the same time."""
    pid = os.getpid()
    return (f"127.{1 + (pid >> 8) % 250}.{pid % 256}.{last}" for last in range(2, 255))
