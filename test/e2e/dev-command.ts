/** The command lines of package.json (`npm start`, `npm run demo`) as processes of their own. */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { RunningState } from '../../dev/lock.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

export interface DevCommand {
  readonly child: ChildProcess
  /** stdout and stderr together. */
  readonly lines: readonly string[]
  /** Ends with the first line that fits, also one said before; rejects when the process ends without it. */
  said(pattern: RegExp): Promise<string>
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
}

/** The script's own words, without npm around them: npm has an exit code of its own when it is interrupted. */
export function runScript(
  script: 'start' | 'demo',
  args: readonly string[],
  env: Record<string, string> = {},
): DevCommand {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  // `exec` is the shell's: npm's shell becomes the program, so that a signal to npm reaches it.
  const [command = '', ...words] = (scripts[script] ?? '').replace(/^exec /, '').split(' ')
  const program = command === 'node' ? process.execPath : join(ROOT, 'node_modules/.bin', command)
  return run(program, [...words, ...args], env)
}

/** `npm run <script> -- <args>`. */
export function runNpm(script: 'start' | 'demo', args: readonly string[]): DevCommand {
  return run('npm', ['run', script, '--', ...args], {})
}

function run(command: string, args: readonly string[], env: Record<string, string>): DevCommand {
  const child = spawn(command, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    // A group of its own, as in a terminal: Ctrl-C is a SIGINT to the group.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  const listeners = new Set<() => void>()
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line)
      if (process.env.TEST_SERVER_LOGS) process.stderr.write(`${line}\n`)
      for (const tell of listeners) tell()
    })
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal }))
  })
  exited.catch(() => {})
  return {
    child,
    lines,
    exited,
    said: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = lines.find((line) => pattern.test(line))
          if (found === undefined) return
          listeners.delete(look)
          resolve(found)
        }
        listeners.add(look)
        look()
        const missed = (): void => reject(new Error(`it ended without saying ${pattern}:\n${lines.join('\n')}`))
        exited.then(missed, missed)
      }),
  }
}

/** What `running.json` says, which is there while the stack runs. */
export function runningState(folder: string): RunningState {
  return JSON.parse(readFileSync(join(folder, 'running.json'), 'utf8')) as RunningState
}
