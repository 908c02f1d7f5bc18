/** The names by which a host knows the routes: docs/behaviour/access.md, "Named routes". */
import { readFileSync } from 'node:fs'
import { expect, it, onTestFinished } from 'vitest'
import { createApi, namedRoutes } from '../../src/api/app.ts'
import { createIntegrations } from '../../src/create-integrations.ts'
import { encryptionKey } from '../support/integrations.ts'

const PAGE = readFileSync(new URL('../../docs/behaviour/access.md', import.meta.url), 'utf8')

it.each([
  ['as it comes', {}, 'integrations', 'integrations'],
  ['with prefixes', { webhook: { prefix: 'hooks' }, oauth: { route_prefix: 'connect/to' } }, 'hooks', 'connect/to'],
])('the API %s has each named route where the table says, and the page names it', async (_, config, hooks, oauth) => {
  const integrations = createIntegrations({
    database: 'postgres://nowhere/',
    encryptionKeys: encryptionKey('k'),
    config,
  })
  onTestFinished(() => integrations.close())
  const routes = namedRoutes(integrations.config)
  expect(Object.fromEntries(Object.entries(routes).map(([name, { path }]) => [name, path]))).toEqual({
    'integrations.oauth.authorize': `/${oauth}/:id/oauth/authorize`,
    'integrations.oauth.callback': `/${oauth}/oauth/callback`,
    'integrations.oauth.revoke': `/${oauth}/:id/oauth/revoke`,
    'integrations.webhook': `/${hooks}/:provider/webhook`,
    'integrations.webhook.specific': `/${hooks}/:provider/:id/webhook`,
  })
  const served = createApi(integrations).routes
  for (const [name, { methods, path }] of Object.entries(routes)) {
    const found = served.filter((route) => route.path === path).map(({ method }) => method)
    expect(found, name).toEqual(expect.arrayContaining(found.includes(methods[0] ?? '') ? [...methods] : ['ALL']))
    expect(PAGE).toContain(`\`${name}\``)
  }
})
