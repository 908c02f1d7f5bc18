/**
 * localstripe, a Stripe that keeps what it is told: intents are confirmed, captured, refunded, and events are delivered.
 *
 * Source: https://github.com/adrienverge/localstripe. Installed by pip once, into an environment of its own in the cache
 * folder. What run-localstripe.py adds to it is named there.
 */
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, inNewFolder, oneAtATime, run } from '../../src/temporal/local-process.ts'
import type { StripePeer } from './stripe-peer.ts'
import { startStripePeer } from './stripe-peer.ts'

const VERSION = '1.15.10'
const PACKAGE = `localstripe==${VERSION}`
const INSTALL_SECONDS = 600
const LAUNCHER = join(import.meta.dirname, 'run-localstripe.py')
const LISTENING = /^Listening at (127\.0\.0\.1:\d+)$/

type Log = (line: string) => void

/** Path of the Python that has it. Installed if there is none: 20 s. */
export async function findLocalstripe({ log = () => {} }: { log?: Log } = {}): Promise<string> {
  const folder = place()
  return (
    presentLocalstripe() ??
    oneAtATime(`${folder}.lock`, log, async () => {
      if (presentLocalstripe() !== null) return pythonIn(folder)
      log(`installing ${PACKAGE} with pip (20 s, once)`)
      await inNewFolder(folder, async (parent) => {
        const environment = join(parent, 'environment')
        await runPython('python3', ['-m', 'venv', environment])
        const pip = ['-m', 'pip', 'install', '--quiet', '--no-input', '--disable-pip-version-check', PACKAGE]
        await runPython(pythonIn(environment), pip)
        return environment
      })
      return pythonIn(folder)
    })
  )
}

/** The same without installing: null when this machine has none yet. */
export function presentLocalstripe(): string | null {
  try {
    accessSync(pythonIn(place()), constants.X_OK)
    return pythonIn(place())
  } catch {
    return null
  }
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

async function runPython(python: string, args: readonly string[]): Promise<void> {
  const { code, output } = await run(python, args, { seconds: INSTALL_SECONDS })
  if (code === 0) return
  throw new Error(
    `${python} ${args.join(' ')}: ${output.trim().slice(-1_000)}. It takes Python 3.9 or later with venv (on Debian: python3-venv), and PyPI within reach.`,
  )
}

function pythonIn(folder: string): string {
  return join(folder, 'bin', 'python3')
}

function place(): string {
  return join(cacheFolder(), `localstripe-${VERSION}`)
}
