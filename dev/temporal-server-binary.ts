/**
 * The `temporal` binary: on PATH · one kept in the user's cache folder or in Go's · the SDK's own download · `go install`.
 */
import { lookup } from 'node:dns/promises'
import { accessSync, constants } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { cacheFolder, connectTo, goEnvironment, inNewFolder, oneAtATime, REACHABLE_MS, run } from './local-process.ts'

/** Newer tags carry `replace` lines, which `go install module@version` refuses. */
const GO_PACKAGE = 'github.com/temporalio/cli/cmd/temporal@v1.5.1'
/**
 * What a dev server does without. `disable_grpc_modules`: gRPC to Google's storage, for archives of workflows, and with it 124 of
 * 1,298 packages. `grpcnotrace`: pages about gRPC. The symbols are for a debugger.
 */
const GO_LEANER = ['-tags', 'disable_grpc_modules,grpcnotrace', '-ldflags', '-s -w']
/** By `go list -deps`, Go's own packages as well. Those that were compiled before are not compiled again. */
const GO_PACKAGES = 1_174
const OLDEST_GO = '1.21' // fetches the newer one that the sources ask for: `go 1.25.0` in go.mod
const BUILD_MINUTES = 3 // on two cores, rounded up: README.md and docs/trying-it.md say the same; the code of SQLite is one package, which one core compiles
const PROGRESS_MS = 15_000
/** The first server whose matching knows fair queues (matching.enableFairness). */
const OLDEST_SERVER = { major: 1, minor: 29 }

/** The SDK asks this host where the archives lie. */
const DOWNLOAD_HOST = 'temporal.download'
const DOWNLOAD_SECONDS = 600

type Log = (line: string) => void

/**
 * Path of a `temporal` binary whose server is new enough. Fetches or builds one into the cache folder if none is found.
 *
 * @param options.progressMs how often a build says how far it is
 * @throws with one sentence that says what to install
 */
export async function findTemporalBinary(
  options: { log?: Log; env?: NodeJS.ProcessEnv; progressMs?: number } = {},
): Promise<string> {
  const { log = () => {}, progressMs = PROGRESS_MS } = options
  const env = options.env ?? process.env
  const present = await presentTemporalBinary({ log, env })
  if (present !== null) return present

  const folder = cacheFolder(env)
  const kept = join(folder, 'bin', 'temporal')
  return oneAtATime(join(folder, 'temporal.lock'), log, async () => {
    if (await isUsable(kept, log)) return kept // another process has fetched it meanwhile
    const fetched = { log, env, progressMs }
    try {
      await downloadCli(kept, fetched)
      return kept
    } catch (error) {
      log(`the Temporal server was not downloaded: ${(error as Error).message}`)
    }
    const go = await run('go', ['version'], { env, seconds: 10 })
    if (go.code !== 0)
      throw new Error(
        `There is no Temporal server on this machine: install the Temporal CLI, so that \`temporal\` is on PATH (https://docs.temporal.io/cli), or Go ${OLDEST_GO} or newer, with which one is built in ${BUILD_MINUTES} minutes (https://go.dev/dl), or set TEMPORAL_ADDRESS to a server that runs.`,
      )
    log(`building the Temporal server by ${go.output.trim()}, once: it takes ${BUILD_MINUTES} minutes on two cores`)
    await buildCli(kept, fetched)
    return kept
  })
}

/** The same without fetching: null when this machine has none yet. */
export async function presentTemporalBinary(
  options: { log?: Log; env?: NodeJS.ProcessEnv } = {},
): Promise<string | null> {
  const log = options.log ?? (() => {})
  const env = options.env ?? process.env
  const folders = [...(env.PATH ?? '').split(delimiter).filter(Boolean), join(cacheFolder(env), 'bin')]
  for (const candidate of folders.map((folder) => join(folder, 'temporal'))) {
    if (await isUsable(candidate, log)) return candidate
  }
  // Where an earlier `go install` by hand has put it. Asked last: `go env` costs a process.
  const go = await run('go', ['env', 'GOBIN', 'GOPATH'], { env, seconds: 10 })
  if (go.code !== 0) return null
  const [gobin = '', gopath = ''] = go.output.split('\n').map((line) => line.trim())
  for (const folder of [gobin, ...gopath.split(delimiter).map((path) => path && join(path, 'bin'))].filter(Boolean)) {
    if (await isUsable(join(folder, 'temporal'), log)) return join(folder, 'temporal')
  }
  return null
}

async function isUsable(path: string, log: Log): Promise<boolean> {
  try {
    accessSync(path, constants.X_OK)
  } catch {
    return false
  }
  const { code, output } = await run(path, ['--version'], { seconds: 15 })
  const version = /Server (\d+)\.(\d+)/.exec(output)
  if (code !== 0 || version === null) {
    log(`${path} is not a Temporal CLI that runs here; looking further`)
    return false
  }
  const [major, minor] = [Number(version[1]), Number(version[2])]
  const isNewEnough = major > OLDEST_SERVER.major || (major === OLDEST_SERVER.major && minor >= OLDEST_SERVER.minor)
  if (!isNewEnough) {
    log(
      `${path} has server ${major}.${minor}, older than ${OLDEST_SERVER.major}.${OLDEST_SERVER.minor}; looking further`,
    )
  }
  return isNewEnough
}

async function downloadCli(destination: string, { log, env }: { log: Log; env: NodeJS.ProcessEnv }): Promise<void> {
  await downloadWithSdk({ server: 'dev-server', destination, log, env })
}

/** The server from its sources. */
async function buildCli(
  destination: string,
  { log, env, progressMs }: { log: Log; env: NodeJS.ProcessEnv; progressMs: number },
): Promise<void> {
  await inNewFolder(destination, async (folder) => {
    const startedAt = performance.now()
    const seconds = () => Math.round((performance.now() - startedAt) / 1000)
    let compiled = 0
    const progress = setInterval(
      () =>
        log(
          compiled === 0
            ? `still fetching the sources of the Temporal server: ${seconds()} s`
            : `still building the Temporal server: ${seconds()} s, ${compiled} of up to ${GO_PACKAGES} packages`,
        ),
      progressMs,
    )
    try {
      const built = await run('go', ['install', '-v', ...GO_LEANER, GO_PACKAGE], {
        env: { ...goEnvironment(env), GOBIN: folder },
        cwd: folder,
        seconds: 1800,
        // One line a package, and `go: downloading …` for each module.
        onOutput: (text) => {
          compiled += text.match(/^(?!go: ).+$/gm)?.length ?? 0
        },
      })
      if (built.code !== 0)
        throw new Error(
          `The Temporal server could not be built: go install ${GO_PACKAGE}: ${reasonIn(built.output)}. Install the Temporal CLI (https://docs.temporal.io/cli), or set TEMPORAL_ADDRESS to a server that runs.`,
        )
    } finally {
      clearInterval(progress)
    }
    // 1.8 GB of modules and 1.3 GB of objects, measured on an empty home.
    log(
      `built the Temporal server in ${seconds()} s; Go's caches keep some 3 GB of it: \`go clean -cache -modcache\` empties them`,
    )
    return join(folder, 'temporal')
  })
}

/** Without the names of the packages that were compiled. */
function reasonIn(output: string): string {
  const lines = output.split('\n').filter((line) => !/^\S*$|^go: downloading /.test(line))
  return lines.join('\n').trim().slice(-1000) || 'it was ended'
}

/**
 * Fetches an ephemeral server with the SDK's own downloader and keeps it at `destination`.
 *
 * It runs in a Node process of its own: the SDK's native runtime is a singleton that a later `Runtime.install()` of the host
 * would stumble over, and a download that hangs can then be ended. Rejects within 3 s when the download host is out of reach.
 */
export async function downloadWithSdk(options: {
  server: 'dev-server' | 'time-skipping'
  destination: string
  log?: Log
  env?: NodeJS.ProcessEnv
}): Promise<void> {
  const env = options.env ?? process.env
  const problem = await downloadProblem(env)
  if (problem !== null) throw new Error(`the SDK's download: ${problem}`)
  options.log?.(`downloading the Temporal ${options.server} with the SDK (once)`)
  await inNewFolder(options.destination, async (folder) => {
    const script = `
      const { TestWorkflowEnvironment } = await import('@temporalio/testing')
      const executable = { type: 'cached-download', downloadDir: process.argv[1] }
      const create = process.argv[2] === 'dev-server' ? 'createLocal' : 'createTimeSkipping'
      const environment = await TestWorkflowEnvironment[create]({ server: { executable } })
      await environment.teardown()
    `
    const { output } = await run(process.execPath, ['--input-type=module', '-e', script, folder, options.server], {
      env,
      cwd: import.meta.dirname,
      seconds: DOWNLOAD_SECONDS,
    })
    // The file counts, not the exit: a slow machine may fail to start in the SDK's 5 s what it has downloaded.
    const file = (await readdir(folder)).find((name) => /^temporal-.*(?<!\.downloading)$/.test(name))
    if (file === undefined) throw new Error(`the SDK's download: ${output.trim().slice(-500)}`)
    return join(folder, file)
  })
}

/** Why the SDK's download can't work here; null when its host answers. Takes 3 s at most. */
export async function downloadProblem(env: NodeJS.ProcessEnv = process.env): Promise<string | null> {
  if (env.HTTPS_PROXY || env.https_proxy || env.ALL_PROXY) return null // the proxy resolves the name
  const timeout = sleep(REACHABLE_MS, `${DOWNLOAD_HOST} is not resolved within ${REACHABLE_MS} ms`, { ref: false })
  const resolved = lookup(DOWNLOAD_HOST).then(
    () => null,
    () => `${DOWNLOAD_HOST} is not reachable`,
  )
  const problem = await Promise.race([resolved, timeout])
  if (problem !== null) return problem
  return connectTo(`${DOWNLOAD_HOST}:443`).then(
    () => null,
    () => `${DOWNLOAD_HOST} is not reachable`,
  )
}
