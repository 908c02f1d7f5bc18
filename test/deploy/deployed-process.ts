/** A process of a deployment: a clean environment, its output kept, ended by SIGTERM as a supervisor ends it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const READY_SECONDS = 180
const COMMAND_SECONDS = 120
const POLL_MS = 100

export interface Deployment {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** What stands before each command: who it runs as. */
  readonly prefix?: readonly string[]
}

export interface DeployedProcess {
  readonly pid: number
  readonly lines: readonly string[]
  readonly exited: Promise<number | null>
  /** Ends with the first line that has this in it. @throws when the process ends before, with what it said */
  said(text: string): Promise<string>
  /** SIGTERM to the program itself, not to what started it. @returns exit code, and after how many seconds */
  terminate(): Promise<{ code: number | null; seconds: number }>
  kill(): Promise<void>
}

export function startDeployed(command: readonly string[], { cwd, env, prefix = [] }: Deployment): DeployedProcess {
  const [program = '', ...args] = [...prefix, ...command]
  const child = spawn(program, args, { cwd, env: { ...env }, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const lines: string[] = []
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line)
      if (process.env.TEST_SERVER_LOGS) process.stderr.write(`${line}\n`)
    })
  const exited = once(child, 'close').then(([code]) => code as number | null)
  let hasEnded = false
  void exited.then(() => {
    hasEnded = true
  })
  const pid = child.pid ?? Number.NaN
  return {
    pid,
    lines,
    exited,
    async said(text) {
      const giveUpAt = performance.now() + READY_SECONDS * 1_000
      for (;;) {
        const line = lines.find((candidate) => candidate.includes(text))
        if (line !== undefined) return line
        if (hasEnded || performance.now() > giveUpAt)
          throw new Error(`${command.join(' ')} did not say ${text}:\n${lines.slice(-20).join('\n')}`)
        await sleep(POLL_MS)
      }
    },
    async terminate() {
      const startedAt = performance.now()
      process.kill(innermost(pid), 'SIGTERM')
      const code = await exited
      return { code, seconds: (performance.now() - startedAt) / 1_000 }
    },
    async kill() {
      if (hasEnded) return
      process.kill(-pid, 'SIGKILL')
      await exited
    },
  }
}

/** Runs a command to its end. @returns what it printed. @throws when it does not end with 0 */
export async function runDeployed(command: readonly string[], deployment: Deployment): Promise<string> {
  const started = startDeployed(command, deployment)
  const timeout = new AbortController()
  const late = sleep(COMMAND_SECONDS * 1_000, 'late' as const, { signal: timeout.signal, ref: false })
  const outcome = await Promise.race([started.exited, late])
  timeout.abort()
  late.catch(() => {})
  if (outcome === 'late') await started.kill()
  if (outcome !== 0)
    throw new Error(`${command.join(' ')} ended with ${outcome}:\n${started.lines.slice(-30).join('\n')}`)
  return started.lines.join('\n')
}

/** The program behind `unshare`, which starts it as its child and passes no signal on. */
export function innermost(pid: number): number {
  const child = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0]
  return child === undefined || child === '' ? pid : innermost(Number(child))
}
