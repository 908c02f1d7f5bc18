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
import { findLocalstripe, presentLocalstripe } from '../test/support/localstripe.ts'
import { findStripeMock, presentStripeMock } from '../test/support/stripe-mock.ts'
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

/** Of the line `go` in stripe-mock's go.mod; an older one can't read the line. */
const OLDEST_GO = [1, 22] as const
/** `ensurepip` is what Debian has in a package of its own. */
const PYTHON_CHECK = 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))'

/** A new need is one more entry. */
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
  {
    name: `Go ${OLDEST_GO.join('.')} or later`,
    neededFor: 'the tests of the Stripe adapter: it builds stripe-mock',
    isMet: () => presentStripeMock() !== null || isGoRecent(),
    debianPackages: [],
    remedy: 'Install it from https://go.dev/doc/install (from Debian 13 on also: apt-get install golang-go).',
  },
  {
    name: 'Python 3.9 or later with venv',
    neededFor: 'the tests of the Stripe adapter: localstripe runs in it',
    isMet: () => presentLocalstripe() !== null || canRun('python3', '-c', PYTHON_CHECK),
    debianPackages: ['python3-venv'],
    remedy: 'Install it from your system or python.org.',
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
  const [temporal, timeSkipping, stripeMock, localstripe] = await Promise.all([
    findTemporalBinary({ log }),
    findTimeSkippingServer({ log }),
    findStripeMock({ log }),
    findLocalstripe({ log }),
  ])
  log(`Temporal server: ${temporal}`)
  log(`time-skipping server: ${timeSkipping}`)
  log(`stripe-mock: ${stripeMock}`)
  log(`localstripe: ${localstripe}`)
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

function isGoRecent(): boolean {
  const { stdout } = spawnSync('go', ['env', 'GOVERSION'], { encoding: 'utf8' })
  const [, major = 0, minor = 0] = /^go(\d+)\.(\d+)/.exec(stdout ?? '')?.map(Number) ?? []
  return major > OLDEST_GO[0] || (major === OLDEST_GO[0] && minor >= OLDEST_GO[1])
}

function canRun(command: string, ...args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0
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
