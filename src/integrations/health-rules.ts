/** How an integration is doing, from best to worst. */
export const HealthStatus = {
  Healthy: 'healthy',
  Degraded: 'degraded',
  Failing: 'failing',
  Disabled: 'disabled',
} as const
export type HealthStatus = (typeof HealthStatus)[keyof typeof HealthStatus]

/** Upstream failures in a row at which an integration gets worse. */
export interface HealthThresholds {
  readonly degradedAfter: number
  readonly failingAfter: number
  /** Null: never. */
  readonly disabledAfter: number | null
}
