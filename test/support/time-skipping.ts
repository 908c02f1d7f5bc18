/**
 * Temporal's time-skipping test server, for workflow tests: the SDK's download where the machine reaches it, else the same
 * server from Maven Central.
 *
 * It knows signal with start, queries, continue-as-new and local activities, but no Schedules, list or count: those are
 * tested on the dev server (dev-server.ts).
 */
import { execFile } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { TestWorkflowEnvironment } from '@temporalio/testing'
import { cacheFolder, oneAtATime } from '../../dev/local-process.ts'
import { downloadWithSdk } from '../../dev/temporal-server-binary.ts'
import { freePort } from '../../src/bin/free-port.ts'

const execute = promisify(execFile)

/** The newest that Maven Central had when it was chosen; its classes run on Java 8 and later, tried on 17. */
const VERSION = '1.38.0'
const COPY_DEPENDENCIES = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies'
const MAIN_CLASS = 'io.temporal.testserver.TestServer'
const MAVEN_SECONDS = 300
/** The SDK gives the server 5 s to answer, which a busy machine may miss, also twice in a row. */
const START_SECONDS = 90

/** An environment of its own server: time is global to a server, so tests that skip must not share one at the same moment. */
export async function createTimeSkippingEnvironment(): Promise<TestWorkflowEnvironment> {
  const path = await findTimeSkippingServer()
  const giveUpAt = performance.now() + START_SECONDS * 1_000
  for (;;) {
    try {
      return await TestWorkflowEnvironment.createTimeSkipping({
        server: { executable: { type: 'existing-path', path } },
      })
    } catch (error) {
      if (performance.now() > giveUpAt || !String(error).includes('did not start')) throw error
    }
  }
}

/** Path of the server's executable. Fetched once into the cache folder; safe for several processes at once. */
export async function findTimeSkippingServer(options: { log?: (line: string) => void } = {}): Promise<string> {
  const log = options.log ?? (() => {})
  const present = presentTimeSkippingServer()
  if (present !== null) return present
  const { downloaded, jars, launcher } = places()
  return oneAtATime(join(cacheFolder(), 'time-skipping.lock'), log, async () => {
    const made = presentTimeSkippingServer()
    if (made !== null) return made
    try {
      await downloadWithSdk({ server: 'time-skipping', destination: downloaded, log })
      return downloaded
    } catch (error) {
      log(`${(error as Error).message}; taking the time-skipping server from Maven`)
    }
    await fetchJars(jars, log)
    await archiveClasses(jars)
    await writeLauncher(launcher)
    return launcher
  })
}

/** The same without fetching: null when this machine has none yet. */
export function presentTimeSkippingServer(): string | null {
  const { downloaded, launcher } = places()
  return [downloaded, launcher].find(isExecutable) ?? null
}

function places() {
  const folder = join(cacheFolder(), 'time-skipping')
  const jars = join(folder, VERSION)
  return { jars, downloaded: join(folder, 'temporal-test-server'), launcher: join(jars, 'temporal-test-server') }
}

async function fetchJars(destination: string, log: (line: string) => void): Promise<void> {
  if (existsSync(destination)) return
  await mkdir(dirname(destination), { recursive: true })
  const folder = await mkdtemp(join(dirname(destination), '.new-'))
  log(`fetching io.temporal:temporal-test-server:${VERSION} with Maven (40 MB, once)`)
  try {
    await writeFile(
      join(folder, 'pom.xml'),
      `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>time-skipping</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.temporal</groupId><artifactId>temporal-test-server</artifactId><version>${VERSION}</version></dependency>
  </dependencies>
</project>
`,
    )
    await execute('mvn', ['-B', '-q', '-ntp', COPY_DEPENDENCIES, `-DoutputDirectory=${join(folder, 'lib')}`], {
      cwd: folder,
      timeout: MAVEN_SECONDS * 1000,
      maxBuffer: 64 * 1024 * 1024,
    })
    await rename(folder, destination)
  } catch (cause) {
    const said = (cause as { stdout?: string }).stdout?.slice(-1000) || (cause as Error).message
    throw new Error(
      `There is no time-skipping test server: temporal.download is not reachable and Maven failed. Install a JDK (8 or later) and Maven and check that Maven Central is reachable. Maven said: ${said}`,
      { cause },
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The server's classes as the JVM wants them in memory: it answers after 0.2 s instead of 1 s. Best effort: Java 13 or later. */
async function archiveClasses(jars: string): Promise<void> {
  const archive = join(jars, 'classes.jsa')
  const port = await freePort()
  // A JVM that gets SIGTERM exits in order, and writes the archive then.
  await execute('java', [`-XX:ArchiveClassesAtExit=${archive}.new`, ...javaArguments(jars), String(port)], {
    timeout: 4000,
    killSignal: 'SIGTERM',
  }).catch(() => {})
  await rename(`${archive}.new`, archive).catch(() => {})
}

function javaArguments(jars: string): string[] {
  // The archive only fits the same class path, so both name it the same way. A short life needs no optimizing compiler.
  return ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xlog:disable', '-cp', `${join(jars, 'lib')}/*`, MAIN_CLASS]
}

/** `exec` keeps the pid, so that the SDK's SIGKILL meets the JVM; the subshell ends it when the test process was killed. */
async function writeLauncher(launcher: string): Promise<void> {
  const jars = dirname(launcher)
  const quoted = javaArguments(jars).map((argument) => `'${argument.replaceAll("'", "'\\''")}'`)
  const archive = `'${join(jars, 'classes.jsa').replaceAll("'", "'\\''")}'`
  const script = `#!/bin/sh
# Arguments: <port>. Made by test/support/time-skipping.ts.
# Without --enable-time-skipping: that is "on start", and time would run away before a worker polls. The SDK unlocks it when
# a test awaits a result or sleeps.
parent=$PPID
self=$$
( while kill -0 "$parent" && kill -0 "$self"; do sleep 1; done; kill -KILL "$self" ) </dev/null >/dev/null 2>&1 &
exec java -XX:SharedArchiveFile=${archive} -Xshare:auto ${quoted.join(' ')} "$@" >/dev/null 2>&1
`
  await writeFile(`${launcher}.new`, script, { mode: 0o755 })
  await rename(`${launcher}.new`, launcher)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
