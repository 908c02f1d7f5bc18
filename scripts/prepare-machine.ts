/**
 * What the tests need from the machine, checked before they start: what is missing is installed where this is root on Debian,
 * else all of it is named at once. Then the caches are warmed, so that no test waits for a download or a build.
 *
 *   npx tsx --conditions=durable-source scripts/prepare-machine.ts
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { downloadProblem, findTemporalBinary, presentTemporalBinary } from '../src/temporal/server-binary.ts'
import { CHROMIUM_NAMES, findChromium } from '../test/e2e/chromium.ts'
import { findTimeSkippingServer, presentTimeSkippingServer } from '../test/support/time-skipping.ts'

const OLDEST_NODE = [20, 20] as const
const APT_GET = '/usr/bin/apt-get'

interface Requirement {
  readonly name: string
  readonly neededFor: string
  isMet(): boolean | Promise<boolean>
  /** Debian packages that bring it; none when Debian has no recent enough one. */
  readonly debianPackages: readonly string[]
  readonly remedy: string
}

/** A new need (Python, …) is one more entry. */
const REQUIREMENTS: readonly Requirement[] = [
  {
    name: `Node.js ${OLDEST_NODE.join('.')} or later`,
    neededFor: 'everything',
    isMet: isNodeRecent,
    debianPackages: [],
    remedy: `Install it from nodejs.org (this is ${process.versions.node}).`,
  },
  {
    name: 'a Temporal dev server',
    neededFor: 'every test with workflows, schedules or signals',
    isMet: async () => (await presentTemporalBinary()) !== null || canRun('go', 'version') || canReachDownloads(),
    debianPackages: [],
    remedy: 'Install the Temporal CLI (https://docs.temporal.io/cli) or Go 1.21 or later, which builds it.',
  },
  {
    name: 'the time-skipping Temporal server, or a JDK and Maven to fetch and run it',
    neededFor: 'workflow tests that skip time',
    isMet: async () => {
      const present = presentTimeSkippingServer()
      if (present !== null) return isNative(present) || canRun('java', '-version')
      return (canRun('java', '-version') && canRun('mvn', '-v')) || canReachDownloads()
    },
    debianPackages: ['default-jdk-headless', 'maven'],
    remedy: 'Install a JDK (8 or later) and Maven.',
  },
  {
    name: `a Chromium on PATH (${CHROMIUM_NAMES.join(', ')})`,
    neededFor: 'the test that connects an integration in a browser',
    isMet: () => findChromium() !== null,
    debianPackages: ['chromium'],
    remedy: 'Install Chromium or Google Chrome.',
  },
]

/** Rejects with one message that names everything that is missing. */
export async function prepareMachine(options: { log?: (line: string) => void } = {}): Promise<void> {
  const log = options.log ?? console.log
  let missing = await findMissing()
  const packages = missing.flatMap((requirement) => requirement.debianPackages)
  if (packages.length > 0 && isRootOnDebian()) {
    installPackages(packages, log)
    missing = await findMissing()
  }
  if (missing.length > 0) {
    const lines = missing.map(({ name, neededFor, remedy, debianPackages }) => {
      const debian = debianPackages.length > 0 ? ` On Debian: apt-get install ${debianPackages.join(' ')}` : ''
      return `  ${name} (for ${neededFor}). ${remedy}${debian}`
    })
    throw new Error(`This machine lacks:\n${lines.join('\n')}`)
  }
  log(`Temporal server: ${await findTemporalBinary({ log })}`)
  log(`time-skipping server: ${await findTimeSkippingServer({ log })}`)
  log(`Chromium: ${findChromium()}`)
}

async function findMissing(): Promise<Requirement[]> {
  const met = await Promise.all(REQUIREMENTS.map((requirement) => requirement.isMet()))
  return REQUIREMENTS.filter((_, index) => !met[index])
}

function installPackages(packages: readonly string[], log: (line: string) => void): void {
  log(`installing Debian packages: ${packages.join(' ')}`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  for (const args of [
    ['update', '-qq'],
    ['install', '-y', '-qq', '--no-install-recommends', ...packages],
  ]) {
    const { status, stderr } = spawnSync(APT_GET, args, {
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    if (status !== 0) log(`apt-get ${args[0]} failed (${status}): ${stderr.trim().slice(-500)}`)
  }
}

function isRootOnDebian(): boolean {
  return process.getuid?.() === 0 && existsSync('/etc/debian_version') && existsSync(APT_GET)
}

function isNodeRecent(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])
}

/** The SDK's download is a native program; Maven's needs Java each time it runs. */
function isNative(path: string): boolean {
  return !existsSync(join(dirname(path), 'lib'))
}

function canRun(command: string, argument: string): boolean {
  return spawnSync(command, [argument], { stdio: 'ignore' }).status === 0
}

async function canReachDownloads(): Promise<boolean> {
  return (await downloadProblem()) === null
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  prepareMachine().catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  })
}
