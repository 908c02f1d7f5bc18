/** Issues and comments are known again, whichever way they come. Rule: docs/behaviour/github.md, "Echoes". */
import { describe, expect, it } from 'vitest'
import { createGithubSandbox, SANDBOX_TOKEN } from '../../../sandbox/github/server.ts'
import { toldRecord } from '../../../src/adapters/github/records.ts'
import type { Json } from '../../../src/framework/json.ts'
import { storedWebhookRequest } from '../../../src/providers/webhook-request.ts'

const REPOSITORY = '/repos/octo-sandbox/widgets'
const sandbox = createGithubSandbox({ entries: 3 })

async function answered(method: string, path: string, body?: object): Promise<Json> {
  const answer = await sandbox.request(path, {
    method,
    headers: { authorization: `Bearer ${SANDBOX_TOKEN}`, accept: 'application/vnd.github.full+json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return (await answer.json()) as Json
}

/** The sandbox's last delivery. */
async function lastDelivery(change: object = {}) {
  const { events } = (await (await sandbox.request('/_sandbox/ledger')).json()) as {
    events: { event: string; payload: object }[]
  }
  const { event = '', payload = {} } = events.at(-1) ?? {}
  return toldRecord({
    kind: 'delivery',
    request: storedWebhookRequest({
      payload: JSON.stringify({ ...payload, ...change }),
      headers: { 'x-github-event': [event] },
      receivedAt: new Date(),
      toleranceSeconds: 300,
    }),
  })
}

describe('an issue', () => {
  it('says the same in an answer, a delivery and a list', async () => {
    const body = await answered('PATCH', `${REPOSITORY}/issues/1`, {
      title: 'Squeaks',
      labels: ['bug'],
      state: 'closed',
    })
    const told = toldRecord({ kind: 'answer', body })
    expect(told).toMatchObject({ key: 'issue:1', content: { title: 'Squeaks', labels: ['bug'], state: 'closed' } })
    expect(await lastDelivery()).toEqual(told)
    const [payload = null] = (await answered('GET', `${REPOSITORY}/issues?state=all&sort=updated`)) as Json[]
    expect(toldRecord({ kind: 'item', eventClass: 'github.issue_synced', payload })).toEqual(told)
  })

  it('is not judged by a delivery that says more than how it is now', async () => {
    await answered('PATCH', `${REPOSITORY}/issues/2`, { title: 'Squeaks' })
    expect(await lastDelivery({ action: 'transferred' })).toBeNull()
  })
})

describe('a comment', () => {
  it('says the same in an answer and a delivery', async () => {
    const told = toldRecord({
      kind: 'answer',
      body: await answered('POST', `${REPOSITORY}/issues/1/comments`, { body: 'Oil it' }),
    })
    expect(told).toMatchObject({ key: expect.stringMatching(/^comment:\d+$/), content: { body: 'Oil it' } })
    expect(await lastDelivery()).toEqual(told)
    expect(await lastDelivery({ action: 'deleted' })).toBeNull()
  })
})
