import type { HandlesWebhooks } from '../contracts.ts'
import type { SignatureScheme } from './scheme-rules.ts'

/** How its deliveries are signed, as data. Undefined: by a check of its own; a method by that name is the provider's own. */
export function signatureOf({ signature }: Partial<HandlesWebhooks>): SignatureScheme | undefined {
  return typeof signature === 'function' ? undefined : signature
}
