import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Ending } from '../../src/claims/ending.ts'
import type { IntegrationRow, WebhookRow } from '../../src/db/schema/tables.ts'
import type { WebhookContext } from '../../src/index.ts'
import { integrationContext } from '../../src/integrations/integration-contexts.ts'
import { runWebhook } from '../../src/webhooks/handling.ts'
import { testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, webhookProvider } from '../support/providers.ts'
import { SOON } from '../support/soon.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

describe('what runs when a worker stops', () => {
  it('is given up 30 s after the worker cancels it, and not before', () => {
    const worker = new AbortController()
    const { signal } = new Ending(worker.signal)
    vi.advanceTimersByTime(3_600_000)
    worker.abort()
    vi.advanceTimersByTime(29_999)
    expect(signal.aborted).toBe(false)
    vi.advanceTimersByTime(1)
    expect(signal.aborted).toBe(true)
  })

  it('is given up by the end of the grace, too, which Temporal tells no local activity; the first that comes counts', () => {
    const [cancelled, grace] = [new AbortController(), new AbortController()]
    const { begun, signal } = new Ending(cancelled.signal, grace.signal, undefined)
    expect(begun.aborted).toBe(false)
    grace.abort(new Error('the worker stops'))
    expect([begun.aborted, signal.aborted]).toEqual([true, false])
    vi.advanceTimersByTime(10_000)
    cancelled.abort(new Error('the run is cancelled'))
    vi.advanceTimersByTime(20_000)
    expect(signal.reason).toEqual(new Error('the worker stops'))
  })

  it('leaves no listener at a signal that outlives it', () => {
    const { signal } = new AbortController()
    const ending = new Ending(signal)
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    ending.release()
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  it('is not given up once it has ended', () => {
    const worker = new AbortController()
    const ending = new Ending(worker.signal)
    worker.abort()
    ending.release()
    vi.advanceTimersByTime(60_000)
    expect(ending.signal.aborted).toBe(false)
  })

  it('of a webhook has no outcome then, so that its row goes back, and its handler is told', async () => {
    let context: WebhookContext | undefined
    const provider = webhookProvider({
      handleWebhook: (_integration, _request, given) => {
        context = given
        return new Promise(() => {})
      },
    })
    const test = testIntegrations('postgres://nobody@127.0.0.1:1/none', { providers: { acme: provider } })
    try {
      const { framework } = test
      const credentials = framework.encryption.encrypt(1, CREDENTIALS)
      const integration = {
        id: 1,
        provider: 'acme',
        isActive: true,
        switchedOffAt: null,
        healthStatus: 'healthy',
        credentials,
      }
      const row = { id: 1, integrationId: 1, eventType: null, payload: '{}', headers: {}, attempts: 1, claim: 'a:1' }
      const enough = new AbortController()
      const outcome = runWebhook(
        framework,
        row as unknown as WebhookRow,
        integrationContext(framework, integration as unknown as IntegrationRow),
        { enough: enough.signal },
      )
      await vi.waitFor(() => expect(context).toBeDefined(), SOON)
      enough.abort(new Error('the worker stops'))
      expect(await outcome).toBeNull()
      expect(context?.signal.aborted).toBe(true)
      expect(test.lines.map(({ fields }) => fields.event)).toContain('webhook.interrupted')
    } finally {
      await test.close()
    }
  })
})
