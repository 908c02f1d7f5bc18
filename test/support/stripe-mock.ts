/**
 * stripe-mock, Stripe's own stand-in: it checks each request against the published description of the API and answers with an
 * object of it. It keeps nothing.
 *
 * Source: https://github.com/stripe/stripe-mock. Built by Go once, into the cache folder.
 */
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, inNewFolder, oneAtATime, run } from '../../dev/local-process.ts'
import type { StripePeer } from './stripe-peer.ts'
import { startStripePeer } from './stripe-peer.ts'

const VERSION = 'v0.203.0'
const PACKAGE = `github.com/stripe/stripe-mock@${VERSION}`
const BUILD_SECONDS = 600
const LISTENING = /^Listening for HTTP at address: (127\.0\.0\.1:\d+)$/

/** It takes any key of test mode, and answers each request with this id. */
export const MOCK_REQUEST_ID = 'req_123'

type Log = (line: string) => void

/** Path of the binary. Built if there is none: 15 s. */
export async function findStripeMock({ log = () => {} }: { log?: Log } = {}): Promise<string> {
  const path = place()
  return (
    presentStripeMock() ??
    oneAtATime(`${path}.lock`, log, async () => {
      if (presentStripeMock() !== null) return path
      log(`building ${PACKAGE} with Go (15 s, once)`)
      await inNewFolder(path, async (folder) => {
        const built = await run('go', ['install', PACKAGE], {
          // CGO off: no C compiler is needed.
          env: { ...process.env, GOBIN: folder, CGO_ENABLED: '0' },
          cwd: folder,
          seconds: BUILD_SECONDS,
        })
        if (built.code !== 0)
          throw new Error(`go install ${PACKAGE}: ${built.output.trim().slice(-1_000)}. It takes Go 1.22.1 or later.`)
        return join(folder, 'stripe-mock')
      })
      return path
    })
  )
}

/** The same without building: null when this machine has none yet. */
export function presentStripeMock(): string | null {
  try {
    accessSync(place(), constants.X_OK)
    return place()
  } catch {
    return null
  }
}

export async function startStripeMock(): Promise<StripePeer> {
  // Left out, HTTPS would take a fixed port.
  const args = ['-http-addr', '127.0.0.1:0', '-https-addr', '127.0.0.1:0']
  return startStripePeer({ name: 'stripe-mock', command: await findStripeMock(), args, listening: LISTENING })
}

function place(): string {
  return join(cacheFolder(), 'bin', `stripe-mock-${VERSION}`)
}
