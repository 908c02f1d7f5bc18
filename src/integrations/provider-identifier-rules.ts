/** What a provider is registered under, and stored as in the column `provider`. */

/** Not all digits: a URL of the webhook routes must tell it from an id. */
const IDENTIFIER = /^(?!\d+$)[a-z0-9][a-z0-9_-]{0,63}$/

export const ALLOWED_PROVIDER_IDENTIFIERS = 'an identifier is 1 to 64 of a-z, 0-9, "_" and "-", and not all digits'

export function isProviderIdentifier(text: string): boolean {
  return IDENTIFIER.test(text)
}
