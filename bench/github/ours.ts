/** Ours with the GitHub adapter, as a host makes it; the API is on this machine. */
import type { Integrations, IntegrationsOptions } from 'durable-integrations'
import { createIntegrations } from 'durable-integrations'
import { GitHubIssueSynced, GitHubProvider } from 'durable-integrations/github'

export interface OursOptions {
  readonly databaseUrl: string
  readonly temporalAddress: string
  readonly encryptionKey: string
}

export function createOurs(options: OursOptions, more: Pick<IntegrationsOptions, 'logger'> = {}): Integrations {
  const integrations = createIntegrations({
    database: options.databaseUrl,
    temporal: { address: options.temporalAddress },
    encryptionKeys: `bench:${options.encryptionKey}`,
    providers: { github: new GitHubProvider() },
    egress: { allow: ['127.0.0.1'] },
    ...more,
  })
  integrations.on(GitHubIssueSynced, () => {})
  return integrations
}
