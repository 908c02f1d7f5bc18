import { Hono } from 'hono'
import { presented } from './callers.ts'
import { jwtRefused, notFound } from './failures.ts'
import { INSTALLATION_ID } from './installation-tokens.ts'
import type { SandboxState } from './sandbox-state.ts'

/** What a GitHub App asks as itself, by its JWT. It costs no quota. */
export function appRoutes({ installationTokens }: SandboxState): Hono {
  const app = new Hono()
  app.post('/installations/:installationId/access_tokens', (c) => {
    const jwt = presented(c.req.header('authorization'))
    if (jwt === null) throw jwtRefused('A JSON web token could not be decoded')
    installationTokens.checkJwt(jwt)
    if (c.req.param('installationId') !== String(INSTALLATION_ID)) {
      throw notFound('POST', '/app/installations/{installation_id}/access_tokens')
    }
    return c.json(installationTokens.issue(), 201)
  })
  return app
}
