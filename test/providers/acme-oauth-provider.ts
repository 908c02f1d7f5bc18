import type { Integration } from 'durable-integrations/provider'
import { OAuth2Provider } from 'durable-integrations/provider'

export class AcmeProvider extends OAuth2Provider {
  override readonly issuer = 'https://login.acme.example'
  protected override readonly scopes = ['tickets:read', 'offline_access']

  protected override client() {
    return { id: process.env.ACME_CLIENT_ID ?? '', secret: process.env.ACME_CLIENT_SECRET }
  }

  async healthCheck(integration: Integration) {
    const me = integration.request('/v1/me', 'GET', async ({ fetch }) => {
      const headers = { Authorization: `Bearer ${await integration.getAccessToken()}` }
      return fetch('https://api.acme.example/v1/me', { headers })
    })
    return me.then(
      () => true,
      () => false,
    )
  }
}
