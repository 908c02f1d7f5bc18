/** The suite as node:test runs it, on a provider with one contract: a file of its own, for a process of its own. */
import { after, describe, it } from 'node:test'
import type { IntegrationProvider } from '../../../src/provider.ts'
import { describeProvider } from '../../../src/testing/index.ts'

const provider = (): IntegrationProvider => ({
  label: process.argv[2] ?? '',
  healthCheck: (integration) =>
    integration
      .request('/me', 'GET', ({ fetch }) => fetch('https://api.tiny.example/me'))
      .then(
        (answer) => typeof answer === 'object' && answer !== null && 'id' in answer,
        () => false,
      ),
})

describeProvider(
  'tiny',
  provider,
  { credentials: { token: 'a-token-of-a-test' }, api: () => Response.json({ id: 7 }) },
  { describe, it, afterAll: after },
)
