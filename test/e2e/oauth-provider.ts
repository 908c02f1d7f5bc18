/** A provider as an author writes it: our ready-made client, and a health check. */
import { z } from 'zod'
import type { Integration } from '../../src/providers/integration.ts'
import type { OAuth2Client } from '../../src/providers/oauth2-provider.ts'
import { OAuth2Provider } from '../../src/providers/oauth2-provider.ts'

export const CLIENT_SECRET = 'client-secret-of-the-tests'

const Credentials = z.object({
  client_id: z.string(),
  client_secret: z.string(),
  access_token: z.string().optional(),
  refresh_token: z.string().optional(),
  token_expires_at: z.iso.datetime().optional(),
})

export interface AcmeOptions {
  readonly issuer: string
  /** Where a person is asked. */
  readonly authorizationEndpoint: string
}

export class AcmeProvider extends OAuth2Provider {
  readonly label = 'Acme CRM'
  readonly credentialsSchema = Credentials
  override readonly issuer: string
  protected override readonly endpoints: { readonly authorization: string }

  constructor({ issuer, authorizationEndpoint }: AcmeOptions) {
    super()
    this.issuer = issuer
    this.endpoints = { authorization: authorizationEndpoint }
  }

  protected override client(integration: Integration): OAuth2Client {
    const { client_id: id, client_secret: secret } = Credentials.parse(integration.credentialsArray())
    return { id, secret }
  }

  async healthCheck(integration: Integration): Promise<boolean> {
    const token = await integration.getAccessToken()
    if (token === null) return false
    const answer = await integration.request('/userinfo', 'GET', ({ fetch }) =>
      fetch(`${this.issuer}/userinfo`, { headers: { Authorization: `Bearer ${token}` } }),
    )
    return z.object({ sub: z.string() }).safeParse(answer).success
  }
}
