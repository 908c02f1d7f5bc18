/**
 * What of the cache belongs to one integration begins with `integration:<id>:`, locks too, so that deleting the
 * integration finds it. Other keys belong to the deployment.
 *
 * Rule: docs/behaviour/integrations.md, "Cache entries".
 */
export function integrationKey(integrationId: number, rest: string): string {
  return `integration:${integrationId}:${rest}`
}
