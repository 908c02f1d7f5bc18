/** A clone of this repository as a stranger has it: what git keeps, `npm ci`, `npm start`. */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

export interface RunningClone {
  readonly lines: readonly string[]
  /** Ends with the first line that fits; rejects when `npm start` ends without it. */
  said(pattern: RegExp): Promise<string>
  /** As Ctrl-C does. @returns the exit code of `npm start` */
  stop(): Promise<number | null>
}

/** What is in the working tree, committed or not, without what git ignores. */
export function makeClone(folder: string): void {
  mkdirSync(folder, { recursive: true })
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { cwd: ROOT })
  const { status, stderr } = spawnSync(
    'bash',
    ['-c', 'tar --null --ignore-failed-read -C "$1" -cf - -T - | tar -C "$2" -xf -', 'clone', ROOT, folder],
    { input: listed, encoding: 'utf8' },
  )
  if (status !== 0) throw new Error(`the clone could not be made: ${stderr}`)
}

/** Of this process: what a login shell has of a person, and how the machine reaches its registries. Nothing of vitest's. */
const KEPT =
  /^(HOME|USER|LANG|TMPDIR|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|(https?|no)_proxy|GO(PROXY|SUMDB|FLAGS))$/i

/** @param path PATH, which says which Node and which npm */
export function environmentOf(path: string): NodeJS.ProcessEnv {
  return { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => KEPT.test(name))), PATH: path }
}

/** @returns what `npm ci` printed */
export function installClone(folder: string, path: string): string {
  const { status, stdout, stderr } = spawnSync('npm', ['ci'], {
    cwd: folder,
    env: environmentOf(path),
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  })
  if (status !== 0) throw new Error(`npm ci ended with ${status}: ${stdout}${stderr}`)
  return stdout + stderr
}

/** `npm start`, until its addresses are shown. */
export async function startClone(folder: string, path: string): Promise<RunningClone> {
  const child = spawn('npm', ['start'], {
    cwd: folder,
    env: environmentOf(path),
    // A group of its own, as in a terminal: Ctrl-C is a SIGINT to the group.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  const listeners = new Set<() => void>()
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line)
      for (const tell of listeners) tell()
    })
  const exited = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)))
  const clone: RunningClone = {
    lines,
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
        void exited.then(() => reject(new Error(`npm start ended without saying ${pattern}:\n${lines.join('\n')}`)))
      }),
    async stop() {
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGINT')
      return exited
    },
  }
  await clone.said(/Ctrl-C stops it/)
  return clone
}
