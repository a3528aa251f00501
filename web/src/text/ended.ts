// How a job ended, in words, and what that means.
import type { Job } from '../api/jobs'
import { limit } from './time'

const SIGNALS: Record<number, string> = {
  1: 'HUP', 2: 'INT', 3: 'QUIT', 4: 'ILL', 5: 'TRAP', 6: 'ABRT', 7: 'BUS', 8: 'FPE', 9: 'KILL', 10: 'USR1',
  11: 'SEGV', 12: 'USR2', 13: 'PIPE', 14: 'ALRM', 15: 'TERM', 17: 'CHLD', 18: 'CONT', 19: 'STOP', 20: 'TSTP',
  24: 'XCPU', 25: 'XFSZ',
}

/** The number of `USR1`, `SIGUSR1` or `10`; none where it is no signal. */
export function signalNumber(text: string): number | null {
  const name = text.toUpperCase().replace(/^SIG/, '')
  const named = Object.entries(SIGNALS).find(([, known]) => known === name)
  if (named) return Number(named[0])
  const number = /^\d+$/.test(name) ? Number(name) : 0
  return number >= 1 && number <= 64 ? number : null
}

export function signalName(signal: number): string {
  return SIGNALS[signal] ?? String(signal)
}

function signalWords(signal: number): string {
  const name = SIGNALS[signal]
  return name === undefined ? `signal ${signal}` : `signal ${signal} (${name})`
}

/** `exit 1`, `signal 9 (KILL)`, else the reason word. */
export function cause(reason: string, exitCode: number | null, signal: number | null): string {
  if (reason === 'exit' && exitCode !== null) return `exit ${exitCode}`
  if (reason === 'signal' && signal !== null) return signalWords(signal)
  return reason
}

/** Beside the word of the state: `exit 1`, `user`; empty where there is nothing to say. */
export function causeOf(job: Pick<Job, 'state' | 'reason' | 'exit_code' | 'signal' | 'results_state'>): string {
  if (job.state === 'completed') return job.results_state === 'failed' ? 'results not copied' : ''
  return job.reason === null ? '' : cause(job.reason, job.exit_code, job.signal)
}

/** What is known about an end beyond its word. */
export function meaning(job: Job, cwdExists: boolean): string[] {
  const detail = job.detail === null ? [] : [job.detail]
  if (job.state === 'killed') return killed(job.reason, detail)
  switch (job.reason) {
    case 'exit':
      return ofCode(job.exit_code ?? 0)
    case 'signal':
      return ofSignal(job.signal ?? 0)
    case 'timeout':
      return job.request.time_seconds ? [`it ran longer than its time limit of ${limit(job.request.time_seconds)}`] : detail
    case 'start-error': {
      const folder = cwdExists ? [] : [`its folder ${job.cwd} is not there`]
      return [...(job.exit_code === null ? detail : ofCode(job.exit_code)), ...folder]
    }
    case 'lost':
      return [...detail, 'nobody saw its end: its watcher or the whole machine went down']
    case 'session-closed':
      return ['its screen session was closed, and it ended with that']
    case 'gpu-oom':
      return ['the memory of the GPU did not suffice: take a smaller batch or model, or a GPU with more memory']
    case 'host-oom':
      return ['the memory of the machine did not suffice, and the kernel ended a process of it']
    default:
      return detail
  }
}

function killed(reason: string | null, detail: string[]): string[] {
  switch (reason) {
    case 'user':
      return ['somebody ended it']
    case 'removed':
      return ['somebody took it out of the queue']
    case 'stopped':
      return ['it was ended together with the service']
    default:
      return detail
  }
}

function ofCode(code: number): string[] {
  if (code === 126) return ['126: the shell found the program and could not run it: is it executable?']
  if (code === 127) return ['127: the shell found no such program: is it installed, and in the PATH of the job?']
  if (code <= 128 || code > 192) return []
  const signal = code - 128
  return [`${code} = 128 + ${signal}: a program in it was ended by ${signalWords(signal)}`, ...ofSignal(signal)]
}

function ofSignal(signal: number): string[] {
  const told: Record<number, string> = {
    1: 'HUP: its terminal was closed',
    2: 'INT: somebody pressed Ctrl-C in it',
    4: 'ILL: the program was built for another kind of CPU',
    6: 'ABRT: it gave up by itself, mostly with a message before that',
    7: 'BUS: often a full /dev/shm, or a file that was cut while in use',
    9: "KILL mostly comes from the kernel when memory runs out, or from somebody's kill -9",
    11: 'SEGV: it touched memory that is not its own, a fault in the program or one of its libraries',
    13: 'PIPE: whoever read its output had left',
    15: 'TERM: somebody outside nexus asked it to end',
  }
  const known = told[signal]
  return known === undefined ? [] : [known]
}
