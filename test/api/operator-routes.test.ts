/** Where the address leads that an API process prints. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { redirectRoot } from '../../src/api/operator-routes.ts'
import type { IntegrationsOptions } from '../../src/create-integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { TOKENS } from '../support/operators.ts'

/** Nothing of it needs a database. */
function integrationsWith(options: IntegrationsOptions) {
  const test = testIntegrations('postgres://nobody@127.0.0.1:1/nothing', options)
  onTestFinished(() => test.close())
  return test.integrations
}

const operator = { tokens: TOKENS }

function processApp(options: IntegrationsOptions) {
  const integrations = integrationsWith(options)
  return redirectRoot(createApi(integrations), integrations)
}

describe('`/` of an API process', () => {
  it.each<[where: string, options: IntegrationsOptions, location: string]>([
    ['the pages', { config: { operator } }, '/operator'],
    ['the pages under another prefix', { config: { operator: { ...operator, prefix: 'ops/ours' } } }, '/ops/ours'],
    ['the pages where nobody has a token, in dev', { dev: true }, '/operator'],
    [
      'where a browser finds them behind a proxy',
      { baseUrl: 'https://example.com/hooks', config: { operator } },
      '/hooks/operator',
    ],
  ])('leads to %s', async (_, options, location) => {
    const app = processApp(options)
    for (const method of ['GET', 'HEAD']) {
      const { status, headers } = await app.request('/', { method })
      expect([status, headers.get('location'), headers.get('cache-control')]).toEqual([302, location, 'no-store'])
    }
  })

  it('is not there where there are no pages', async () => {
    expect((await processApp({}).request('/')).status).toBe(404)
  })

  it('leaves the other routes as they are', async () => {
    const app = processApp({ config: { operator } })
    const [health, nothing] = [await app.request('/operator/api/v1/healthz'), await app.request('/nothing')]
    expect([health.status, nothing.status]).toEqual([200, 404])
    expect(await nothing.json()).toEqual({ error: 'There is no such route.' })
  })

  it('is left to a host that mounts the routes', async () => {
    expect((await createApi(integrationsWith({ config: { operator } })).request('/')).status).toBe(404)
  })
})
