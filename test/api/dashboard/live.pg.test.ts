/** Pages that keep themselves up to date. Rule: docs/behaviour/dashboard.md, "Live". */
import { Hono } from 'hono'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { AccessEnvironment } from '../../../src/api/caller.ts'
import { callerOf } from '../../../src/api/caller.ts'
import { liveRoutes } from '../../../src/api/dashboard/live.ts'
import { operatorRoutes } from '../../../src/api/operator-routes.ts'
import type { Dashboard } from '../../support/dashboard.ts'
import { openDashboard } from '../../support/dashboard.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import type { SignedIn } from '../../support/operators.ts'
import { OPERATE_TOKEN, signIn } from '../../support/operators.ts'
import { webhookProvider } from '../../support/providers.ts'
import { makeIntegration, makeWebhook } from '../../support/rows.ts'

let dashboard: Dashboard
let test: TestIntegrations
let reader: SignedIn
let operator: SignedIn
const left: AbortController[] = []

beforeAll(async () => {
  dashboard = await openDashboard({ providers: { acme: webhookProvider() } })
  ;({ test, reader, operator } = dashboard)
})

afterEach(() => {
  for (const each of left.splice(0)) each.abort()
})

afterAll(() => dashboard.close())

/** The routes, with a short time between two looks. */
function apiOf({ stopping = new AbortController().signal, longestMs = 60_000, isAway = (): boolean => false } = {}) {
  const operatorApi = operatorRoutes(test.integrations, () => new Response())
  const asked: string[] = []
  const render = (request: Request, env: unknown) => {
    asked.push(new URL(request.url).pathname)
    return isAway() ? new Response(null, { status: 503 }) : operatorApi.fetch(request, env as object)
  }
  const app = new Hono<AccessEnvironment>().basePath('/operator')
  app.use('*', async (context, next) => {
    const caller = await callerOf(test.integrations, context)
    if (caller === null) return context.body(null, 401)
    context.set('caller', caller)
    return next()
  })
  app.route('/', liveRoutes(test.integrations, { render, stopping, everyMs: 5, longestMs }))
  return { app, asked }
}

async function open(app: Hono<AccessEnvironment>, page: string, who = operator) {
  const client = new AbortController()
  left.push(client)
  const answer = await app.request(`/operator/live?page=${encodeURIComponent(page)}`, {
    headers: { cookie: who.cookie },
    signal: client.signal,
  })
  const stream = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  /** Reads on until the text has it; null: the stream has ended first. */
  const until = async (words: string): Promise<string | null> => {
    while (!text.includes(words)) {
      const { done, value } = (await stream?.read()) ?? { done: true, value: undefined }
      if (done) return null
      text += value
    }
    const seen = text
    text = ''
    return seen
  }
  return { status: answer.status, headers: answer.headers, until, leave: () => stream?.cancel() }
}

describe('a live page', () => {
  it('is sent once, and again when it has changed', async () => {
    const { app, asked } = apiOf()
    const integration = await makeIntegration(test, 'acme', { name: 'first' })
    const page = await open(app, '/integrations')
    expect(page.headers.get('content-type')).toBe('text/event-stream')
    expect(page.headers.get('x-accel-buffering')).toBe('no')
    const first = await page.until('</main>')
    expect(first).toContain('event: main')
    expect(first).toContain('first')
    expect(first).not.toContain('<nav')
    const looks = asked.length
    await expect.poll(() => asked.length).toBeGreaterThan(looks + 3)
    await test.integrations.update(integration.id, { name: 'second' })
    const second = await page.until('</main>')
    expect(second?.match(/event: main/g)).toHaveLength(1)
    expect(second).toContain('second')
  })

  it('is not sent again for the ids of its forms, which are new in each look', async () => {
    const { app, asked } = apiOf()
    const { id } = await makeIntegration(test, 'acme', { name: 'with forms' })
    const page = await open(app, `/integrations/${id}`)
    expect(await page.until('</main>')).toContain('name="form_id"')
    const looks = asked.length
    await expect.poll(() => asked.length).toBeGreaterThan(looks + 3)
    await test.integrations.update(id, { name: 'other name' })
    const next = await page.until('other name')
    expect(next?.match(/event: main/g)).toHaveLength(1)
  })

  it('keeps its filter, and shows a reader no acts', async () => {
    const { app } = apiOf()
    const integration = await makeIntegration(test, 'acme')
    await makeWebhook(test, integration.id, { status: 'failed', attempts: 3, eventType: 'only.this' })
    const page = `/webhooks?status=failed&event=only.this`
    expect(await (await open(app, page)).until('</main>')).toContain('Replay all of these')
    const seen = await (await open(app, page, reader)).until('</main>')
    expect(seen).toContain('only.this')
    expect(seen).not.toContain('Replay')
  })

  it('ends with its session', async () => {
    const { app } = apiOf()
    const leaving = await signIn(test.integrations, OPERATE_TOKEN)
    const page = await open(app, '/webhooks', leaving)
    await page.until('</main>')
    const session = await test.integrations.admin.access.bySession(leaving.cookie.split('=')[1] ?? '')
    await test.integrations.admin.access.signOut(session?.id ?? '')
    expect(await page.until('event: end')).toContain('data: 302')
    expect(await page.until('anything')).toBeNull()
  })

  it('is asked for again by the browser itself after a fault of the server', async () => {
    let isAway = false
    const { app } = apiOf({ isAway: () => isAway })
    const page = await open(app, '/webhooks')
    await page.until('</main>')
    isAway = true
    expect(await page.until('retry: 15000')).not.toContain('event: end')
    expect(await page.until('event: end')).toBeNull()
    isAway = false
    expect(await (await open(app, '/webhooks')).until('</main>')).toContain('event: main')
  })

  it('that will not change any more is sent once and ended', async () => {
    const { app, asked } = apiOf()
    const page = await open(app, '/webhooks?after=1')
    expect(await page.until('event: end')).toContain('data: done')
    expect(asked).toEqual(['/operator/webhooks'])
  })

  it('ends after its longest time, when the process stops, and when the client leaves', async () => {
    const old = await open(apiOf({ longestMs: 30 }).app, '/webhooks')
    await old.until('</main>')
    expect(await old.until('more')).toBeNull()

    const stopping = new AbortController()
    const { app } = apiOf({ stopping: stopping.signal })
    const page = await open(app, '/webhooks')
    await page.until('</main>')
    stopping.abort()
    expect(await page.until('more')).toBeNull()
    expect((await open(app, '/webhooks')).status).toBe(503)

    const { app: other, asked } = apiOf()
    const gone = await open(other, '/webhooks')
    await gone.until('</main>')
    await gone.leave()
    const looks: number[] = []
    await expect.poll(() => looks.push(asked.length) > 1 && looks.at(-1) === looks.at(-2), { interval: 50 }).toBe(true)
  })

  it('is refused beyond six of a session, until one of them ends', async () => {
    const { app } = apiOf()
    const six = await Promise.all(Array.from({ length: 6 }, () => open(app, '/webhooks')))
    await Promise.all(six.map((page) => page.until('</main>')))
    const seventh = await open(app, '/webhooks')
    expect([seventh.status, seventh.headers.get('retry-after')]).toEqual([503, '15'])
    expect((await open(app, '/webhooks', reader)).status).toBe(200)
    await six[0]?.leave()
    await expect.poll(async () => (await open(app, '/webhooks')).status).toBe(200)
  })

  it('waits for a reader that reads nothing', async () => {
    const { app, asked } = apiOf()
    await makeIntegration(test, 'acme', { name: 'x'.repeat(200) })
    const page = await open(app, '/integrations')
    await page.until('</main>')
    // Each look differs from the one before.
    const { id } = await makeIntegration(test, 'acme')
    let looks = -1
    for (let n = 0; n < 40 && looks !== asked.length; n += 1) {
      looks = asked.length
      await test.integrations.update(id, { name: `name ${n}` })
      await expect
        .poll(() => asked.length > looks, { timeout: 500 })
        .toBe(true)
        .catch(() => {})
    }
    expect(asked.length).toBe(looks)
  })
})

describe('what is no page', () => {
  it.each([
    '/api/v1/webhooks',
    '/api',
    '/login',
    '/login?token=x',
    '/live?page=/webhooks',
    '/do/post/webhooks/replay',
    '/../metrics',
    '/%2e%2e/metrics',
    '.evil.example/',
    '@evil.example/',
    'x',
  ])('%s is refused', async (page) => {
    const { app, asked } = apiOf()
    app.onError((error, context) => context.body(error.message, 404))
    expect((await open(app, page)).status).toBe(404)
    expect(asked).toEqual([])
  })

  it('that is there no more ends the stream with its status', async () => {
    const { app } = apiOf()
    expect(await (await open(app, '/nowhere')).until('event: end')).toContain('data: 404')
  })
})
