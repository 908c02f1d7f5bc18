/** The example host's first minutes wherever it is deployed: an integration with the sandbox, a webhook through, a sync through. */
import { randomBytes, randomUUID } from 'node:crypto'
import type { Sql } from 'postgres'
import { expect } from 'vitest'
import { GitHubProvider } from '../../src/adapters/github/index.ts'
import { createIntegrations } from '../../src/create-integrations.ts'
import { until } from '../e2e/own-stack.ts'
import { sign } from '../support/providers.ts'

export interface Connected {
  readonly id: number
  readonly webhookSecret: string
}

/** @param deployed with the deployment's own keys: else it could not read the credentials */
export async function connectSandbox(deployed: {
  readonly databaseUrl: string
  readonly encryptionKeys: string
  readonly sandboxUrl: string
}): Promise<Connected> {
  const webhookSecret = randomBytes(24).toString('hex')
  const integrations = createIntegrations({
    database: deployed.databaseUrl,
    encryptionKeys: deployed.encryptionKeys,
    providers: { github: new GitHubProvider() },
  })
  try {
    const { id } = await integrations.create({
      provider: 'github',
      name: 'Sandbox repository',
      credentials: { token: 'sandbox-token', webhook_secret: webhookSecret },
      metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: deployed.sandboxUrl },
    })
    return { id, webhookSecret }
  } finally {
    await integrations.close()
  }
}

/** Answered 2xx, and then handled by the host's own listener, once. */
export async function sendWebhookThrough(apiUrl: string, { id, webhookSecret }: Connected, sql: Sql): Promise<void> {
  const deliveryId = randomUUID()
  const body = JSON.stringify({ action: 'opened', issue: { number: 1 }, delivery: deliveryId })
  const answer = await fetch(`${apiUrl}/integrations/github/${id}/webhook`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'issues',
      'x-github-delivery': deliveryId,
      'x-hub-signature-256': `sha256=${sign(body, webhookSecret)}`,
    },
    body,
  })
  expect(answer.status, await answer.text()).toBeLessThan(300)
  await until('the webhook was handled', async () => {
    const [row] = await sql<{ runs: number }[]>`select runs from activity where delivery_id = ${deliveryId}`
    return row?.runs === 1
  })
}
