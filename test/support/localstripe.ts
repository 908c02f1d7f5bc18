/**
 * localstripe, a Stripe that keeps what it is told: intents are confirmed, captured, refunded, and events are delivered.
 *
 * Source: https://github.com/adrienverge/localstripe. What run-localstripe.py adds to it is named there.
 */
import { join } from 'node:path'
import type { PythonPackage } from './python-environment.ts'
import { findPackage } from './python-environment.ts'
import type { StripePeer } from './stripe-peer.ts'
import { startStripePeer } from './stripe-peer.ts'

export const LOCALSTRIPE: PythonPackage = {
  name: 'localstripe',
  version: '1.15.10',
  // The package itself imports none of what it brings with it.
  module: 'localstripe.resources',
  constraints: join(import.meta.dirname, 'localstripe-constraints.txt'),
}
const LAUNCHER = join(import.meta.dirname, 'run-localstripe.py')
const LISTENING = /^Listening at (127\.0\.0\.1:\d+)$/

export async function startLocalstripe(): Promise<StripePeer> {
  return startStripePeer({
    name: 'localstripe',
    command: await findPackage(LOCALSTRIPE),
    args: [LAUNCHER],
    // Else a line is held back until the pipe is full.
    env: { PYTHONUNBUFFERED: '1', PYTHONDONTWRITEBYTECODE: '1' },
    listening: LISTENING,
  })
}
