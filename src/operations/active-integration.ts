import { IntegrationInactive } from '../core/errors.ts'
import { switchedOffBy } from '../core/switched-off.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'

/** @throws IntegrationInactive */
export function requireActive(row: IntegrationRow): void {
  const by = switchedOffBy(row)
  if (by !== null) throw new IntegrationInactive(row.id, by)
}
