import type { OAuth2Client } from 'durable-integrations/provider'
import { OAuth2Provider } from 'durable-integrations/provider'
import { defaultRateLimit, streams } from './crm-provider.ts'

/** The same CRM for customers who connect their account. */
export class CrmWithOAuth extends OAuth2Provider {
  readonly label = 'CRM'
  readonly streams = streams
  readonly defaultRateLimit = defaultRateLimit

  override readonly issuer = 'https://login.crm.example'
  protected override readonly endpoints = {
    authorization: 'https://login.crm.example/authorize',
    token: 'https://login.crm.example/token',
    revocation: 'https://login.crm.example/revoke',
  }
  protected override readonly scopes = ['contacts:read', 'deals:read', 'offline_access']
  readonly #client: OAuth2Client

  constructor(client: OAuth2Client) {
    super()
    this.#client = client
  }

  protected override client() {
    return this.#client
  }
}
