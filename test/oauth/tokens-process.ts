/**
 * A process of tokens.e2e.test.ts: `race <integration> <url>`, or `stand <integration> <url>`. Database and keys come from the
 * environment; it says over IPC what it does.
 */
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { createIntegrations } from '../../src/create-integrations.ts'
import { isIntegrationsError } from '../../src/framework/errors.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'

/** What a process says. */
export type Said =
  | { readonly kind: 'ready' }
  | { readonly kind: 'raced'; readonly outcomes: readonly string[] }
  /** The provider has given new tokens, and it keeps them to itself until it is killed. */
  | { readonly kind: 'standing' }
  | { readonly kind: 'failed'; readonly message: string }

export const CALLS_A_PROCESS = 25

const Answer = z.record(z.string(), z.unknown())

/** The client of the test's token endpoint. */
export function oauthProvider(url: string, answered: () => Promise<void> = async () => {}): HasOAuth2 {
  return {
    authorizationUrl: () => 'https://provider.example/authorize',
    exchangeCode: async () => ({}),
    async refreshToken(integration: Integration) {
      const { refresh_token } = integration.credentialsArray()
      const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: String(refresh_token) })
      const given = await integration.requestAs(Answer, 'token', 'POST', ({ signal }) =>
        fetch(url, { method: 'POST', body, signal }),
      )
      await answered()
      return given
    },
    revokeToken: async () => {},
    refreshThreshold: () => 60,
  }
}

const say = (said: Said): void => void process.send?.(said)

async function main([work, id, url = '']: readonly string[]): Promise<void> {
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const answered = async (): Promise<void> => {
    if (work !== 'stand') return
    say({ kind: 'standing' })
    await new Promise(() => {})
  }
  const integrations = createIntegrations({ providers: { oauth: oauthProvider(url, answered) }, logger: silent })
  const orphaned = () => process.exit(1)
  process.on('disconnect', orphaned)
  try {
    await integrations.ready()
    const handles = await Promise.all(Array.from({ length: CALLS_A_PROCESS }, () => integrations.get(Number(id))))
    if (work === 'race') {
      const go = new Promise((resolve) => process.once('message', resolve))
      say({ kind: 'ready' })
      await go
      const outcomes = await Promise.all(
        handles.map((handle) => handle.getAccessToken().then((token) => String(token), outcomeOf)),
      )
      say({ kind: 'raced', outcomes })
    } else await handles[0]?.getAccessToken()
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
