import type { Integration, OAuth2Client } from 'durable-integrations/provider'
import { OAuth2Provider, ReauthRequiredException } from 'durable-integrations/provider'

export class AcmeProvider extends OAuth2Provider {
  override readonly issuer = 'https://login.acme.example'
  protected override readonly scopes = ['tickets:read', 'offline_access']
  readonly #client: OAuth2Client

  constructor(client: OAuth2Client) {
    super()
    this.#client = client
  }

  protected override client() {
    return this.#client
  }

  async healthCheck(integration: Integration) {
    const me = integration.request(
      '/v1/me',
      'GET',
      async ({ fetch }) => {
        const token = await integration.getAccessToken()
        if (token === null) throw new ReauthRequiredException(integration.id, 'there is no access token')
        return fetch('https://api.acme.example/v1/me', { headers: { Authorization: `Bearer ${token}` } })
      },
      { attempts: 1, timeoutMs: 10_000 },
    )
    return me.then(
      () => true,
      () => false,
    )
  }
}
