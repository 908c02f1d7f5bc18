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
import { downloadProblem, findTemporalBinary, presentTemporalBinary } from '../dev/temporal-server-binary.ts'
import { CHROMIUM_NAMES, findChromium } from '../test/e2e/chromium.ts'
import { findPorcupine, presentPorcupine } from '../test/linearizability/porcupine.ts'
import { findComposeResolver, presentComposeResolver } from '../test/support/compose-resolver.ts'
import { LOCALSTRIPE } from '../test/support/localstripe.ts'
import { findPackage, OLDEST_PYTHON, presentPackage } from '../test/support/python-environment.ts'
import { SCHEMATHESIS } from '../test/support/schemathesis.ts'
import { findStripeMock, presentStripeMock } from '../test/support/stripe-mock.ts'
import { findTimeSkippingServer, presentTimeSkippingServer } from '../test/support/time-skipping.ts'
import type { DebianPackage } from './debian-packages.ts'
import { installPackages, isRootOnDebian } from './debian-packages.ts'
import { isAtLeast } from './versions.ts'

const OLDEST_NODE = [20, 20] as const

interface Requirement {
  readonly name: string
  readonly neededFor: string
  isMet(): boolean | Promise<boolean>
  /** That bring it; none when Debian has no such package. */
  readonly debianPackages: readonly DebianPackage[]
  readonly remedy: string
}

/** The line `go` in scripts/compose/go.mod, which is that of compose-go; stripe-mock takes an older one. */
export const OLDEST_GO = [1, 24] as const
/** It fetches the newer Go that the server's sources ask for. */
const OLDEST_GO_FOR_TEMPORAL = [1, 21] as const
/** `ensurepip` is what Debian has in a package of its own. */
const PYTHON_CHECK = `import ensurepip, sys, venv; sys.exit(sys.version_info < (${OLDEST_PYTHON.join(', ')}))`

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
    isMet: async () => (await presentTemporalBinary()) !== null || hasGo(OLDEST_GO_FOR_TEMPORAL) || canReachDownloads(),
    debianPackages: [],
    remedy: `Install the Temporal CLI (https://docs.temporal.io/cli) or Go ${OLDEST_GO_FOR_TEMPORAL.join('.')} or later, which builds it.`,
  },
  {
    name: 'the time-skipping Temporal server, or a JDK and Maven to fetch and run it',
    neededFor: 'workflow tests that skip time',
    isMet: async () => {
      const present = presentTimeSkippingServer()
      if (present !== null) return isNative(present) || canRun('java', '-version')
      return (canRun('java', '-version') && canRun('mvn', '-v')) || canReachDownloads()
    },
    debianPackages: [{ name: 'default-jdk-headless' }, { name: 'maven' }],
    remedy: 'Install a JDK (8 or later) and Maven.',
  },
  {
    name: `Go ${OLDEST_GO.join('.')} or later`,
    neededFor:
      'the tests of the Stripe adapter, of docker-compose.yml and of linearizability: it builds stripe-mock, the reader of Compose files and the judge of histories, and, for the long tests, what runs the tests of the alerts',
    isMet: () =>
      [presentStripeMock, presentComposeResolver, presentPorcupine].every((present) => present() !== null) ||
      hasGo(OLDEST_GO),
    debianPackages: [{ name: 'golang-go', oldest: OLDEST_GO }],
    remedy: 'Install it from https://go.dev/doc/install.',
  },
  {
    name: `Python ${OLDEST_PYTHON.join('.')} or later with venv`,
    neededFor: 'the tests of the Stripe adapter and of the operator API: localstripe and schemathesis run in it',
    isMet: async () =>
      (await Promise.all([LOCALSTRIPE, SCHEMATHESIS].map(presentPackage))).every((python) => python !== null) ||
      canRun('python3', '-c', PYTHON_CHECK),
    debianPackages: [{ name: 'python3-venv' }],
    remedy: 'Install it from your system or python.org.',
  },
  {
    name: 'openssl',
    neededFor: 'the test of TLS to Temporal: it makes the certificates',
    isMet: () => canRun('openssl', 'version'),
    debianPackages: [{ name: 'openssl' }],
    remedy: 'Install it from your system.',
  },
]

const BROWSER: Requirement = {
  name: `a Chromium on PATH (${CHROMIUM_NAMES.join(', ')})`,
  neededFor: 'the tests of pages in a browser',
  isMet: () => findChromium() !== null,
  debianPackages: [{ name: 'chromium' }],
  remedy: 'Install Chromium or Google Chrome.',
}

/** Rejects with one message that names everything that is missing. @param hasBrowser whether tests open pages in a browser */
export async function prepareMachine({ hasBrowser = false, log = console.log } = {}): Promise<void> {
  const requirements = hasBrowser ? [...REQUIREMENTS, BROWSER] : REQUIREMENTS
  let missing = await findMissing(requirements)
  const packages = missing.flatMap((requirement) => requirement.debianPackages)
  if (packages.length > 0 && isRootOnDebian()) {
    installPackages(packages, log)
    missing = await findMissing(requirements)
  }
  if (missing.length > 0) {
    const lines = missing.map(({ name, neededFor, remedy, debianPackages }) => {
      return `  ${name} (for ${neededFor}). ${remedy}${onDebian(debianPackages)}`
    })
    throw new Error(`This machine lacks:\n${lines.join('\n')}`)
  }
  const [temporal, timeSkipping, stripeMock, localstripe, schemathesis, composeResolver, porcupine] = await Promise.all(
    [
      findTemporalBinary({ log }),
      findTimeSkippingServer({ log }),
      findStripeMock({ log }),
      findPackage(LOCALSTRIPE, { log }),
      findPackage(SCHEMATHESIS, { log }),
      findComposeResolver({ log }),
      findPorcupine({ log }),
    ],
  )
  log(`Temporal server: ${temporal}`)
  log(`time-skipping server: ${timeSkipping}`)
  log(`stripe-mock: ${stripeMock}`)
  log(`localstripe: ${localstripe}`)
  log(`schemathesis: ${schemathesis}`)
  log(`reader of Compose files: ${composeResolver}`)
  log(`judge of histories: ${porcupine}`)
  if (hasBrowser) log(`Chromium: ${findChromium()}`)
}

async function findMissing(requirements: readonly Requirement[]): Promise<Requirement[]> {
  const met = await Promise.all(requirements.map((requirement) => requirement.isMet()))
  return requirements.filter((_, index) => !met[index])
}

function onDebian(packages: readonly DebianPackage[]): string {
  if (packages.length === 0) return ''
  const since = packages.flatMap(({ name, oldest }) =>
    oldest === undefined ? [] : [`, where ${name} is ${oldest.join('.')} or later`],
  )
  return ` On Debian${since.join('')}: apt-get install ${packages.map(({ name }) => name).join(' ')}`
}

function isNodeRecent(): boolean {
  return isAtLeast(process.versions.node.split('.').map(Number), OLDEST_NODE)
}

/** The SDK's download is a native program; Maven's needs Java each time it runs. */
function isNative(path: string): boolean {
  return !existsSync(join(dirname(path), 'lib'))
}

function hasGo(oldest: readonly number[]): boolean {
  const { stdout } = spawnSync('go', ['env', 'GOVERSION'], { encoding: 'utf8' })
  const version = /^go(\d+(?:\.\d+)*)/.exec(stdout ?? '')?.[1]
  return version !== undefined && isAtLeast(version.split('.').map(Number), oldest)
}

function canRun(command: string, ...args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0
}

async function canReachDownloads(): Promise<boolean> {
  return (await downloadProblem()) === null
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  prepareMachine({ hasBrowser: true }).catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  })
}
