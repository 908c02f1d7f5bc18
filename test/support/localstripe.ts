/**
 * localstripe, a Stripe that keeps what it is told: intents are confirmed, captured, refunded, and events are delivered.
 *
 * Source: https://github.com/adrienverge/localstripe. Installed by pip once, into an environment of its own in the cache
 * folder. What run-localstripe.py adds to it is named there.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder, oneAtATime, run } from '../../dev/local-process.ts'
import { pythonIn, pythonTag, replaceEnvironment, usableEnvironment } from './python-environment.ts'
import type { StripePeer } from './stripe-peer.ts'
import { startStripePeer } from './stripe-peer.ts'

const VERSION = '1.15.10'
const PACKAGE = `localstripe==${VERSION}`
/** What is imported to see that all of it is there: the package itself imports none of what it brings with it. */
const MODULE = 'localstripe.resources'
const CONSTRAINTS = join(import.meta.dirname, 'localstripe-constraints.txt')
/** The oldest that each of the constraints runs on. */
export const OLDEST_PYTHON = [3, 11] as const
const INSTALL_SECONDS = 600
const LAUNCHER = join(import.meta.dirname, 'run-localstripe.py')
const LISTENING = /^Listening at (127\.0\.0\.1:\d+)$/

type Log = (line: string) => void

/** Path of the Python that has it. Installed if there is none: 20 s. */
export async function findLocalstripe({ log = () => {} }: { log?: Log } = {}): Promise<string> {
  const present = await presentLocalstripe()
  if (present !== null) return present
  const folder = await place()
  if (folder === null) throw new Error(`localstripe needs ${NEEDS}`)
  return oneAtATime(`${folder}.lock`, log, async () => {
    const madeMeanwhile = await usableEnvironment(folder, MODULE)
    if (madeMeanwhile !== null) return madeMeanwhile
    log(`installing ${PACKAGE} with pip (20 s, once)`)
    return replaceEnvironment(folder, async (environment) => {
      await runPython('python3', ['-m', 'venv', environment])
      const pip = ['-m', 'pip', 'install', '--quiet', '--no-input', '--disable-pip-version-check']
      await runPython(pythonIn(environment), [...pip, '-c', CONSTRAINTS, PACKAGE])
    })
  })
}

/** The same without installing: null when this machine has none yet, or none that still runs. */
export async function presentLocalstripe(): Promise<string | null> {
  const folder = await place()
  return folder === null ? null : usableEnvironment(folder, MODULE)
}

export async function startLocalstripe(): Promise<StripePeer> {
  return startStripePeer({
    name: 'localstripe',
    command: await findLocalstripe(),
    args: [LAUNCHER],
    // Else a line is held back until the pipe is full.
    env: { PYTHONUNBUFFERED: '1', PYTHONDONTWRITEBYTECODE: '1' },
    listening: LISTENING,
  })
}

const NEEDS = `Python ${OLDEST_PYTHON.join('.')} or later with venv (on Debian: python3-venv), and PyPI within reach.`

async function runPython(python: string, args: readonly string[]): Promise<void> {
  const { code, output } = await run(python, args, { seconds: INSTALL_SECONDS })
  if (code === 0) return
  throw new Error(`${python} ${args.join(' ')}: ${output.trim().slice(-1_000)}. It takes ${NEEDS}`)
}

/** Named for all that decides what is in it, so that another of it is another folder. Null without Python. */
async function place(): Promise<string | null> {
  const [tag, constraints] = await Promise.all([pythonTag(), readFile(CONSTRAINTS)])
  const digest = createHash('sha256').update(constraints).digest('hex').slice(0, 8)
  return tag === null ? null : join(cacheFolder(), `localstripe-${VERSION}-${tag}-${digest}`)
}
