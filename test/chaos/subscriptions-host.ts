/** The host of the chaos test about webhook subscriptions. */
import { createIntegrations } from '../../src/index.ts'
import { subscribingProvider } from '../support/subscribing-provider.ts'

export default createIntegrations({
  database: process.env.DATABASE_URL,
  baseUrl: 'https://hooks.example.com',
  egress: { allow: ['127.0.0.1'] },
  providers: { acme: subscribingProvider() },
})
