/** The one terminal of a tutorial's reader: a shell in which the page's commands run, one block after the other. */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'

export interface Terminal {
  /** Runs commands to their end. @returns what they printed @throws when one of them fails, with what was printed */
  run(commands: string): Promise<string>
  /** Ends the shell and all that was started in it. */
  close(): Promise<void>
}

export interface TerminalOptions {
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
  /** For one block of commands. */
  readonly timeoutMs: number
}

export function openTerminal({ folder, env, timeoutMs }: TerminalOptions): Terminal {
  const shell = spawn('bash', ['--noprofile', '--norc'], {
    cwd: folder,
    env,
    // A group of its own: what a page starts in the background is ended with it.
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let printed = ''
  let look = (): void => {}
  for (const stream of [shell.stdout, shell.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text
      look()
    })
  }
  const closed = new Promise<void>((resolve) => {
    shell.once('close', () => {
      resolve()
      look()
    })
  })
  // A command that fails ends the shell, and so the tutorial.
  shell.stdin.write('set -eo pipefail\n')

  return {
    async run(commands) {
      const end = `end-${randomBytes(8).toString('hex')}`
      printed = ''
      shell.stdin.write(`${commands}\necho ${end}\n`)
      await new Promise<void>((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`not done after ${timeoutMs} ms:\n${printed}`)), timeoutMs)
        look = () => {
          if (printed.includes(end)) resolve()
          else if (hasEnded(shell)) reject(new Error(`a command failed (exit code ${shell.exitCode}):\n${printed}`))
          else return
          clearTimeout(late)
        }
        look()
      })
      return printed.slice(0, printed.indexOf(end))
    },
    async close() {
      if (shell.pid !== undefined) killGroup(shell.pid)
      await closed
    },
  }
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    // All of it has ended already.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
