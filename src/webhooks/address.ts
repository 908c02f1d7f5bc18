/** Where a provider delivers to. Rule: docs/behaviour/access.md, "Named routes". */
import type { Framework } from '../framework/context.ts'
import type { Integration } from '../providers/integration.ts'

type Delivered = Pick<Integration, 'id' | 'provider'>

/** Below the base URL. */
export function webhookPath({ config }: Pick<Framework, 'config'>, { id, provider }: Delivered): string {
  return `/${config.webhook.prefix}/${provider}/${id}/webhook`
}

/** For a person who registers it: the whole address, or only the path where no base URL is configured. */
export function webhookAddress(framework: Pick<Framework, 'config' | 'baseUrl'>, of: Delivered): string {
  return `${framework.baseUrl ?? ''}${webhookPath(framework, of)}`
}
