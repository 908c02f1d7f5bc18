/** How an integration is doing, from best to worst. */
export const HealthStatus = {
  Healthy: 'healthy',
  Degraded: 'degraded',
  Failing: 'failing',
  Disabled: 'disabled',
} as const
export type HealthStatus = (typeof HealthStatus)[keyof typeof HealthStatus]
