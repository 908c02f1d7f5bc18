/**
 * What kind of error it is: its `code`, else the name of its class. Never its text: what a provider's token endpoint
 * says may quote tokens that nobody knows yet, so that redaction could not find them.
 */
export function errorKind(error: unknown): string {
  const { code, name } = (typeof error === 'object' && error !== null ? error : {}) as {
    code?: unknown
    name?: unknown
  }
  const kind = [code, name].find((word) => typeof word === 'string' && /^[\w.-]{1,64}$/.test(word))
  return typeof kind === 'string' ? kind : 'unknown'
}
