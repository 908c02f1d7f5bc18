/** Listeners of framework events that an activity tells, when its worker stops. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { tellingUntilEnd } from '../../src/activities/ending-listeners.ts'
import type { IntegrationRow } from '../../src/db/schema/tables.ts'
import { integrationContext } from '../../src/integrations/integration-contexts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, webhookProvider } from '../support/providers.ts'

const STOPS = new Error('the worker stops')

let test: TestIntegrations
let worker: AbortController
let surroundings: () => { cancellationSignal: AbortSignal; info: { attempt: number } }

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  test = testIntegrations('postgres://nobody@127.0.0.1:1/none', { providers: { acme: webhookProvider() } })
  worker = new AbortController()
  surroundings = () => ({ cancellationSignal: worker.signal, info: { attempt: 1 } })
})

afterEach(async () => {
  vi.useRealTimers()
  await test.close()
})

function integrationOf(id: number): Integration {
  const credentials = test.framework.encryption.encrypt(id, CREDENTIALS)
  const row = { id, provider: 'acme', isActive: true, switchedOffAt: null, healthStatus: 'healthy', credentials }
  return integrationContext(test.framework, row as unknown as IntegrationRow).handle
}

/** Tells of one integration after the other, as an evaluation does. */
function tellOf(ids: readonly number[]): () => Promise<string> {
  return async () => {
    for (const id of ids)
      await test.framework.listeners.emit('SyncStalenessRecovered', { integration: integrationOf(id) })
    return 'told'
  }
}

const givenUp = () =>
  test.lines.filter(({ fields }) => fields.event === 'listener.given_up').map(({ fields }) => fields)

/** Two listeners, of which the first never ends for the first integration. */
function hangsAtFirst() {
  const told: string[] = []
  const begun = occasion()
  test.integrations.on('SyncStalenessRecovered', async function slow({ integration }) {
    told.push(`slow ${integration.id}`)
    begun.happen()
    if (integration.id === 1) await new Promise(() => {})
  })
  test.integrations.on('SyncStalenessRecovered', ({ integration }) => void told.push(`quick ${integration.id}`))
  return { told, begun: begun.happened }
}

describe('a listener that does not end while its worker stops', () => {
  it('is waited for 30 s; then the others of the event are told, and of the rest, and the activity goes on to its end', async () => {
    const { told, begun } = hangsAtFirst()
    const ended = tellingUntilEnd(tellOf([1, 2]), surroundings)()
    await begun
    worker.abort(STOPS)
    vi.advanceTimersByTime(29_999)
    expect(givenUp()).toEqual([])
    vi.advanceTimersByTime(1)
    expect(await ended).toBe('told')
    expect(told).toEqual(['slow 1', 'quick 1', 'slow 2', 'quick 2'])
    expect(givenUp()).toEqual([
      {
        event: 'listener.given_up',
        integration: 1,
        provider: 'acme',
        name: 'SyncStalenessRecovered',
        listener: 'slow',
        told_again: false,
      },
    ])
  })

  it('is waited for without an end where no activity tells it', async () => {
    const { begun } = hangsAtFirst()
    const isOver = vi.fn()
    void tellOf([1])().then(isOver)
    await begun
    worker.abort(STOPS)
    vi.advanceTimersByTime(3_600_000)
    await new Promise((resolve) => setImmediate(resolve))
    expect(isOver).not.toHaveBeenCalled()
  })
})
