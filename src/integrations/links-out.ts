/** Addresses of other systems' pages about a record of ours. Rule: docs/dashboard.md, "Links out". */
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Framework } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import type { ShownRecord } from '../providers/contracts.ts'
import { integrationHandle } from './handle.ts'
import { requireIntegration } from './queries.ts'

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-/
/** Longer addresses are no use in a link. */
const MAX_ADDRESS = 2_048

export function linksOut(framework: Framework) {
  const { config, temporal } = framework
  const { temporal_ui: ui, trace_url: trace } = config.operator
  return {
    /** A workflow in the Temporal UI; null: `operator.temporal_ui` is not set. @param runId of one execution; else the newest */
    workflow(workflowId: string, runId: string | null = null): string | null {
      if (ui === null) return null
      const namespace = encodeURIComponent(temporal.namespace)
      const run = runId === null ? '' : `/${encodeURIComponent(runId)}/history`
      return `${ui.replace(/\/+$/, '')}/namespaces/${namespace}/workflows/${encodeURIComponent(workflowId)}${run}`
    },

    /** @param traceparent W3C's; null: nothing was traced */
    trace(traceparent: string | null): string | null {
      const id = TRACEPARENT.exec(traceparent ?? '')?.[1]
      return trace === null || id === undefined ? null : trace.replaceAll('{trace_id}', id)
    },

    /** The provider's own page of a record; null: it has none. @throws IntegrationNotFound */
    async page(integrationId: number, record: ShownRecord): Promise<string | null> {
      const row = await requireIntegration(framework, integrationId)
      const provider = framework.providers.find(row.provider)
      if (provider?.pageOf === undefined) return null
      const integration = integrationHandle(framework, row)
      try {
        const address: unknown = provider.pageOf(integration, record)
        return isPage(address) ? address : null
      } catch (error) {
        integrationLogger(framework, row).warn(
          { event: 'provider.page_failed', error: redactedErrorLine(error, secretsIn(integration), 500) },
          "The provider's pageOf() threw: the page has no link.",
        )
        return null
      }
    },
  }
}

/** What a provider makes of a payload is not ours: no other scheme, no user info. */
function isPage(address: unknown): address is string {
  if (typeof address !== 'string' || address.length > MAX_ADDRESS || !URL.canParse(address)) return false
  const { protocol, username, password } = new URL(address)
  return protocol === 'https:' && username === '' && password === ''
}
