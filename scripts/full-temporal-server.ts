/**
 * Runs a command against a whole Temporal server with Postgres behind it, as production has one, in place of the dev server:
 * all four services in one process, four shards, a Postgres of its own, fair queues.
 *
 * `npx tsx --conditions=durable-source scripts/full-temporal-server.ts -- npm run demo`
 *
 * The command finds it by `TEMPORAL_ADDRESS`. Without a command it stays until Ctrl-C. Everything ends with the command, or with
 * a signal, and leaves nothing behind; the exit code is the command's. What is measured with it: docs/performance.md.
 */
import { spawn } from 'node:child_process'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { endWithParent } from '../dev/local-process.ts'
import { createSupervisor, stopOnSignals } from '../dev/processes.ts'
import { findServerBinaries } from './full-server/binaries.ts'
import { prepareFullServer } from './full-server/start.ts'

const NAMESPACE = 'default'
const USAGE = 'Usage: npx tsx --conditions=durable-source scripts/full-temporal-server.ts [-- command [argument...]]'
const EXIT_USAGE = 2
/** What a shell gives for a command that a signal has ended. */
const EXIT_SIGNAL = 130
/** Between asking the command to end and ending it. */
const COMMAND_GRACE_MS = 30_000
/** How long a signal waits for the step of a start that is under way. */
const LAST_STEP_MS = 5_000

/** To stderr, so that a pipe gets what the command prints only. */
const say = (line: string): void => console.error(line)

const words = process.argv.slice(2)
if (words.length > 0 && (words[0] !== '--' || words.length === 1)) {
  say(USAGE)
  process.exit(EXIT_USAGE)
}
process.exit(await main(words.slice(1)))

async function main(command: readonly string[]): Promise<number> {
  const supervisor = createSupervisor({ log: say })
  let onSignal: (code: number) => void = () => {}
  const interrupted = new Promise<number>((resolve) => {
    onSignal = resolve
  })
  stopOnSignals(supervisor, { log: say, exit: () => onSignal(EXIT_SIGNAL) })
  const work = serve(command, supervisor.own)
  try {
    return await Promise.race([work, interrupted])
  } catch (error) {
    if (supervisor.stopping) return await interrupted
    say(error instanceof Error ? error.message : String(error))
    return 1
  } finally {
    await Promise.race([work.catch(() => {}), supervisor.stopping ? sleep(LAST_STEP_MS) : undefined])
    await supervisor.stop()
  }
}

async function serve(
  command: readonly string[],
  own: (name: string, stop: () => Promise<void>) => void,
): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'durable-full-temporal-'))
  own('its folder', () => rm(folder, { recursive: true, force: true }))
  // Else the cluster of a root, which runs as another user, lies elsewhere and stays behind.
  await chmod(folder, 0o711)
  const binaries = await findServerBinaries(say)
  const { address, logFile, start } = await prepareFullServer({ binaries, folder, namespace: NAMESPACE, own, log: say })
  const server = await start()
  say(`Temporal server: ${address}, namespace ${NAMESPACE}, pid ${server.pid}, log ${logFile}`)
  const ended = server.exited.then((last): never => {
    throw new Error(`The Temporal server ended by itself: ${last}`)
  })
  const [file, ...args] = command
  return Promise.race([
    ended,
    file === undefined ? new Promise<number>(() => {}) : runCommand(file, args, address, own),
  ])
}

/** In a process group of its own: a Ctrl-C reaches it once, by us, before what it uses is taken away. */
async function runCommand(
  file: string,
  args: readonly string[],
  address: string,
  own: (name: string, stop: () => Promise<void>) => void,
): Promise<number> {
  const child = spawn(file, args, {
    stdio: 'inherit',
    detached: true,
    env: { ...process.env, TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: NAMESPACE },
  })
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', (cause) => reject(new Error(`${file} can't be started: ${cause.message}`, { cause })))
    child.once('close', (code) => resolve(code ?? EXIT_SIGNAL))
  })
  const pid = child.pid
  if (pid === undefined) return ended
  const watcher = endWithParent(pid)
  void ended.then(() => watcher.cancel())
  own(file, async () => {
    signalGroup(pid, 'SIGTERM')
    await Promise.race([ended, sleep(COMMAND_GRACE_MS, undefined, { ref: false })])
    signalGroup(pid, 'SIGKILL')
  })
  return ended
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if ((error as { code?: string }).code !== 'ESRCH') throw error
  }
}
