import { IntegrationInactive } from '../core/errors.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'

/** @throws IntegrationInactive */
export function requireActive({ id, isActive, healthStatus }: IntegrationRow): void {
  if (healthStatus === 'disabled') throw new IntegrationInactive(id, 'its health')
  if (!isActive) throw new IntegrationInactive(id, 'an operator')
}
