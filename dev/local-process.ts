/** What starting a server on this machine takes: a port, a folder for what is fetched, a lock, a watcher. */
import { spawn } from 'node:child_process'
import { accessSync, constants, lstatSync, mkdirSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, open, readFile, rename, rm } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { connect as connectTcp } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export const REACHABLE_MS = 3000
const TEMPORAL_PORT = 7233

type Log = (line: string) => void

/** Resolves once something at `host:port` has taken a connection; rejects with the reason, after 3 s at most. */
export async function connectTo(address: string): Promise<void> {
  const { hostname, port } = new URL(`tcp://${address}`)
  await new Promise<void>((resolve, reject) => {
    const socket = connectTcp({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || TEMPORAL_PORT) })
    socket.setTimeout(REACHABLE_MS, () => socket.destroy(new Error(`no answer within ${REACHABLE_MS} ms`)))
    socket.once('connect', () => {
      socket.destroy()
      resolve()
    })
    socket.once('error', reject)
  })
}

/** What is fetched once and shared by all clones of a user. Never inside a clone. */
export function cacheFolder(env: NodeJS.ProcessEnv = process.env): string {
  if (env.XDG_CACHE_HOME) return join(env.XDG_CACHE_HOME, 'durable-integrations')
  const home = env.HOME || homedir()
  if (isWritable(home)) return join(home, '.cache', 'durable-integrations')
  // A user without a home (nobody, a service account). Under /tmp somebody else could have made the folder.
  const self = process.getuid?.()
  const folder = join(tmpdir(), `durable-integrations-${self ?? 'cache'}`)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (self !== undefined && lstatSync(folder).uid !== self) {
    throw new Error(`${folder} belongs to another user. Set XDG_CACHE_HOME to a folder of your own.`)
  }
  return folder
}

/** In which `go` builds a program that this machine runs. */
export function goEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const folder = cacheFolder(env)
  return {
    ...env,
    // No C compiler is needed, the binary is static.
    CGO_ENABLED: '0',
    // The sources may ask for a newer Go, which Go 1.21 and later fetch. Go's own images say `local`: no other than their own.
    GOTOOLCHAIN: 'auto',
    // Without them Go keeps modules and objects below HOME. https://pkg.go.dev/cmd/go#hdr-Environment_variables
    ...(isWritable(env.HOME)
      ? {}
      : { GOPATH: env.GOPATH || join(folder, 'go'), GOCACHE: env.GOCACHE || join(folder, 'go-build') }),
  }
}

function isWritable(folder: string | undefined): boolean {
  if (!folder) return false
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Makes a file in a fresh folder beside `destination` and moves it there as one step; what is half made is never seen. */
export async function inNewFolder(destination: string, make: (folder: string) => Promise<string>): Promise<void> {
  const parent = dirname(destination)
  await mkdir(parent, { recursive: true })
  const folder = await mkdtemp(join(parent, '.new-'))
  try {
    const made = await make(folder)
    await chmod(made, 0o755)
    await rename(made, destination)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Leaves a file, where there is one, to its owner alone. */
export async function ownersOnly(file: string): Promise<void> {
  await chmod(file, 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
}

/** Runs `work` in one process of this machine at a time. A lock of a dead process is ignored. */
export async function oneAtATime<T>(lockFile: string, log: Log, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(lockFile), { recursive: true })
  for (let waits = 0; ; waits++) {
    try {
      const handle = await open(lockFile, 'wx')
      await handle.writeFile(String(process.pid))
      await handle.close()
      break
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const holder = Number(await readFile(lockFile, 'utf8').catch(() => ''))
    if (waits === 0 && holder > 0) log(`waiting for process ${holder}, which is fetching the same`)
    // An empty file is one being written, unless it stays so.
    if (holder > 0 ? !isAlive(holder) : waits > 20) await rm(lockFile, { force: true })
    else await sleep(250)
  }
  try {
    return await work()
  } finally {
    await rm(lockFile, { force: true })
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Ends a process when this one ends, also by `kill -9`.
 *
 * A shell reads from a pipe whose other end is ours alone: it reads the end of the file when we are gone. `cancel` it
 * when the process has ended by itself, before its pid can belong to somebody else.
 */
export function endWithParent(pid: number, signal: 'TERM' | 'INT' = 'TERM'): { cancel(): void } {
  const script = `read -r _; kill -s "$1" "$2"; i=0
    while kill -0 "$2" && [ $i -lt 200 ]; do sleep 0.1; i=$((i + 1)); done
    kill -s KILL "$2"`
  const watcher = spawn('/bin/sh', ['-c', script, 'sh', signal, String(pid)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  watcher.on('error', () => {})
  watcher.unref()
  ;(watcher.stdin as Socket).unref()
  return { cancel: () => void watcher.kill('SIGKILL') }
}

/** Runs a command to its end; its code is null when it can't be started or took longer than `seconds`. */
export async function run(
  command: string,
  args: readonly string[],
  options: { env?: NodeJS.ProcessEnv; cwd?: string; seconds: number; onOutput?: (text: string) => void },
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      env: options.env ?? process.env,
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: options.seconds * 1000,
      killSignal: 'SIGKILL',
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        output += chunk
        options.onOutput?.(String(chunk))
      })
    child.once('error', (error) => resolve({ code: null, output: error.message }))
    child.once('close', (code) => resolve({ code, output }))
  })
}
