/**
 * Cache keys of one integration begin with `integration:<id>:`, its locks' too, so that its deletion finds them. Other keys belong to
 * the deployment.
 * Rule: docs/behaviour/integrations.md, "Cache entries".
 */
export function integrationKey(integrationId: number, rest: string): string {
  const [before, after] = aroundIntegrationId(rest)
  return `${before}${integrationId}${after}`
}

/** The same of any integration, for a statement that puts each one's id in between. */
export function aroundIntegrationId(rest: string): readonly [before: string, after: string] {
  return ['integration:', `:${rest}`]
}
