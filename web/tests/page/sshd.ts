// A second machine for a test: an sshd of its own on 127.0.0.2, with keys of its own. It ends with `end`.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'

const SSHD = '/usr/sbin/sshd'
const HOST = '127.0.0.2'

/** What is missing here, in a word. */
export const noSshd = existsSync(SSHD) ? false : `${SSHD} is not there`

export class Sshd {
  /** For `ssh -F`: in it the machine is called `host1`. */
  readonly config: string
  private readonly folder: string
  private readonly port: number
  private server: ChildProcess | null = null

  private constructor(folder: string, port: number) {
    this.folder = folder
    this.port = port
    this.config = join(folder, 'ssh_config')
  }

  static async start(folder: string): Promise<Sshd> {
    mkdirSync(folder, { mode: 0o700 })
    const one = new Sshd(folder, await freePort())
    one.write()
    await one.up()
    return one
  }

  private write(): void {
    const path = (name: string) => join(this.folder, name)
    const me = userInfo().username
    for (const key of ['id', 'host_key']) execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path(key)])
    copyFileSync(path('id.pub'), path('authorized_keys'))
    writeFileSync(path('sshd_config'), [
      `ListenAddress ${HOST}:${this.port}`, `HostKey ${path('host_key')}`, `AuthorizedKeysFile ${path('authorized_keys')}`, 'PidFile none', 'StrictModes no',
      'UsePAM no', 'PasswordAuthentication no', 'KbdInteractiveAuthentication no', 'PermitRootLogin prohibit-password', `AllowUsers ${me}`, 'UseDNS no', '',
    ].join('\n'))
    // A host that is not known is refused.
    writeFileSync(path('known_hosts'), `[${HOST}]:${this.port} ${readFileSync(path('host_key.pub'), 'utf8').split(' ').slice(0, 2).join(' ')}\n`)
    writeFileSync(this.config, [
      'Host host1', `  HostName ${HOST}`, `  Port ${this.port}`, `  User ${me}`, `  IdentityFile ${path('id')}`, '  IdentitiesOnly yes', '  IdentityAgent none',
      `  UserKnownHostsFile ${path('known_hosts')}`, '  GlobalKnownHostsFile /dev/null', '  StrictHostKeyChecking yes', '  BatchMode yes', '  ConnectTimeout 5',
      '  ServerAliveInterval 1', '  ServerAliveCountMax 2', '',
    ].join('\n'))
  }

  async up(): Promise<void> {
    // Only root's needs this folder.
    if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
    this.server = spawn(SSHD, ['-D', '-f', join(this.folder, 'sshd_config'), '-E', join(this.folder, 'log')], { stdio: 'ignore', detached: true })
    await new Promise((resolve) => setTimeout(resolve, 300))
  }

  /** Cuts the lines that are there too. */
  down(): void {
    const pid = this.server?.pid
    this.server = null
    if (pid === undefined) return
    // Each line has a process of its own below the server, some in sessions of their own: all are found by their parents.
    for (const one of [...below(pid), pid]) {
      try {
        process.kill(one, 'SIGKILL')
      } catch {
        // It has ended by itself.
      }
    }
  }
}

/** Processes named sshd below `pid`. What they started goes on, as after a cut line. */
function below(pid: number): number[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,comm='], { encoding: 'utf8' }).trim().split('\n').map((line) => line.trim().split(/\s+/))
  const children = lines.filter(([, parent, name]) => Number(parent) === pid && name?.startsWith('sshd')).map(([child]) => Number(child))
  return children.flatMap((child) => [child, ...below(child)])
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, HOST, () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })
}
