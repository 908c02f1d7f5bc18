/** Which requests are told of in a host's app, and by which route. Rule: docs/behaviour/tracing.md, "Requests to us". */
import { randomBytes } from 'node:crypto'
import { Hono } from 'hono'
import { afterEach, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import { createIntegrations } from '../../src/create-integrations.ts'
import type { Logger } from '../../src/framework/logger.ts'
import { TOKENS } from '../support/operators.ts'

const made: Integrations[] = []
afterEach(() => Promise.all(made.splice(0).map((one) => one.close())))

/** Routes of the host's before ours and after them, a catch-all among the latter. */
function hostApp({
  logs = {},
  tokens = TOKENS,
}: {
  logs?: Partial<Logger>
  tokens?: readonly (typeof TOKENS)[number][]
} = {}) {
  const told: Record<string, unknown>[] = []
  const note = (fields: Record<string, unknown>): void => {
    if (fields.event === 'api.request') told.push(fields)
  }
  const logger: Logger = { debug: note, info() {}, warn() {}, error() {}, ...logs }
  const integrations = createIntegrations({
    database: 'postgres://nobody@127.0.0.1:1/none',
    encryptionKeys: `test:${randomBytes(32).toString('base64')}`,
    logger,
    config: { operator: { tokens } },
  })
  made.push(integrations)
  const app = new Hono()
  app.get('/before/:id', (context) => context.text('host'))
  const api = createApi(integrations)
  app.route('/', api)
  app.get('/after/:id', (context) => context.text('host'))
  app.get('/integrations/mine', (context) => context.text('host'))
  app.all('/:any{.+}', (context) => context.text('host'))
  const asked = async (of: Hono, path: string, init?: RequestInit) => {
    const { status } = await of.request(path, init)
    return { status, told: told.map(({ method, route, status }) => [method, route, status]) }
  }
  return {
    ask: (path: string, init?: RequestInit) => asked(app, path, init),
    askAlone: (path: string) => asked(api, path),
  }
}

describe("in a host's app", () => {
  it.each(['/before/1', '/after/1', '/integrations/mine', '/anything/else', '/integrations'])(
    "a request for the host's own %s is none of ours",
    async (path) => {
      // `/integrations` is ours: the page that stands there by default.
      const own = path === '/integrations' ? [['GET', '/integrations', 200]] : []
      expect(await hostApp().ask(path)).toEqual({ status: 200, told: own })
    },
  )

  it.each([
    ['/integrations/nobody/webhook', 'POST', 404, '/integrations/:provider/webhook'],
    ['/integrations/nobody/7/webhook', 'PUT', 405, '/integrations/:provider/:id/webhook'],
    ['/integrations/7/oauth/authorize', 'POST', 401, '/integrations/:id/oauth/authorize'],
    ['/operator/api/v1/healthz', 'GET', 200, '/operator/api/v1/healthz'],
    ['/operator/api/v1/nothing/here', 'GET', 401, null],
    ['/metrics', 'GET', 401, '/metrics'],
  ])('%s is told of once, by the route that answered', async (path, method, status, route) => {
    expect(await hostApp().ask(path, { method })).toEqual({ status, told: [[method, route, status]] })
  })

  it('a request below our prefix that no route answers is told of', async () => {
    expect(await hostApp({ tokens: [] }).askAlone('/operator/nothing')).toEqual({
      status: 404,
      told: [['GET', null, 404]],
    })
  })

  it('nothing is made for a logger that writes no such lines', async () => {
    const asked: string[] = []
    const isLevelEnabled = (level: string): boolean => {
      asked.push(level)
      return false
    }
    const { ask } = hostApp({ logs: { isLevelEnabled } })
    expect(await ask('/operator/api/v1/healthz')).toEqual({ status: 200, told: [] })
    expect(asked).toEqual(['debug'])
  })
})
