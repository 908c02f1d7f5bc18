/**
 * A process of idempotency.e2e.test.ts: `race <integration> <url>`, or `stand <integration> <url> before|after`. Database and keys come from the
 * environment; it says over IPC what it does.
 */
import { fileURLToPath } from 'node:url'
import { createIntegrations } from '../../src/create-integrations.ts'
import { isIntegrationsError } from '../../src/framework/errors.ts'
import type { SupportsIdempotency } from '../../src/providers/contracts.ts'
import type { Call } from '../../src/providers/integration.ts'

/** What a process says. */
export type Said =
  | { readonly kind: 'ready' }
  | { readonly kind: 'raced'; readonly outcomes: readonly string[] }
  /** It stands before the call goes out, or after it was answered, until it is killed. */
  | { readonly kind: 'standing' }
  | { readonly kind: 'failed'; readonly message: string }

export const KEY = 'key of the test'
export const CALLS_A_PROCESS = 25
/** How long the turn of a caller lasts, about: longer than any machine stands still. */
export const TIMEOUT_MS = 60_000

/** Knows keys itself. */
export const KNOWING: SupportsIdempotency = { supportsIdempotency: true, idempotencyWindowSeconds: 86_400 }

/** Sends the key along. */
export function post(url: string): Call<unknown> {
  return ({ signal, idempotencyKey }) =>
    fetch(url, { method: 'POST', signal, headers: { 'Idempotency-Key': String(idempotencyKey) } })
}

const say = (said: Said): void => void process.send?.(said)

async function main([work, id, url = '', at]: readonly string[]): Promise<void> {
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const integrations = createIntegrations({ providers: { plain: {}, knowing: KNOWING }, logger: silent })
  const orphaned = () => process.exit(1)
  process.on('disconnect', orphaned)
  try {
    await integrations.ready()
    const integration = await integrations.get(Number(id))
    const write = (call: Call<unknown>) =>
      integration.request('things', 'POST', call, { idempotencyKey: KEY, timeoutMs: TIMEOUT_MS })
    if (work === 'race') {
      const go = new Promise((resolve) => process.once('message', resolve))
      say({ kind: 'ready' })
      await go
      const outcomes = await Promise.all(
        Array.from({ length: CALLS_A_PROCESS }, () => write(post(url)).then(() => 'made', outcomeOf)),
      )
      say({ kind: 'raced', outcomes })
    } else
      await write(async (context) => {
        if (at === 'after') await post(url)(context)
        say({ kind: 'standing' })
        return new Promise(() => {})
      })
  } catch (error) {
    say({ kind: 'failed', message: String(error) })
    process.exitCode = 1
  } finally {
    await integrations.close()
    process.off('disconnect', orphaned)
    process.disconnect?.()
  }
}

function outcomeOf(error: unknown): string {
  return isIntegrationsError(error) ? error.code : String(error)
}

// The test imports what is said.
if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.slice(2))
