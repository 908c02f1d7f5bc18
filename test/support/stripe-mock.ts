/**
 * stripe-mock, Stripe's own stand-in: it checks each request against the published description of the API and answers with an
 * object of it. It keeps nothing.
 *
 * Source: https://github.com/stripe/stripe-mock. Built by Go once, into the cache folder.
 */
import { join } from 'node:path'
import { builtByGo } from './built-by-go.ts'
import type { StripePeer } from './stripe-peer.ts'
import { startStripePeer } from './stripe-peer.ts'

const VERSION = 'v0.203.0'
const PACKAGE = `github.com/stripe/stripe-mock@${VERSION}`
const LISTENING = /^Listening for HTTP at address: (127\.0\.0\.1:\d+)$/

/** It takes any key of test mode, and answers each request with this id. */
export const MOCK_REQUEST_ID = 'req_123'

export const { find: findStripeMock, present: presentStripeMock } = builtByGo({
  name: 'stripe-mock',
  version: VERSION,
  takes: '15 s',
  maxSeconds: 600,
  remedy: 'It takes Go 1.22.1 or later.',
  async build(go, folder) {
    await go(['install', PACKAGE], folder, { GOBIN: folder })
    return join(folder, 'stripe-mock')
  },
})

export async function startStripeMock(): Promise<StripePeer> {
  // Left out, HTTPS would take a fixed port.
  const args = ['-http-addr', '127.0.0.1:0', '-https-addr', '127.0.0.1:0']
  return startStripePeer({ name: 'stripe-mock', command: await findStripeMock(), args, listening: LISTENING })
}
