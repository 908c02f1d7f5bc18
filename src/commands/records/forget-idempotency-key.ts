import { columns, command } from '../command.ts'
import { flag, id } from '../fields.ts'
import { IdempotencyKeyRow } from '../shapes.ts'

export const forgetIdempotencyKey = command({
  name: 'forget-idempotency-key',
  topic: 'Records',
  summary: 'Frees a spent idempotency key, so that its write may be made again.',
  examples: ['integrations forget-idempotency-key 4711', 'integrations forget-idempotency-key 4711 --force --yes'],
  places: ['id'],
  fields: { id: id('of the key in the ledger'), force: flag('also while a call with it may be under way') },
  reach: 'idempotency-key',
  output: IdempotencyKeyRow,
  routes: [{ method: 'delete', path: '/idempotency-keys/:id' }],
  async confirm({ integrations }, { id: of }) {
    const { key, integrationId } = await integrations.admin.idempotencyKeys.get(of)
    return `Free the key "${key}" of integration ${integrationId}? The same write may then happen twice.`
  },
  async run({ integrations, by, from }, { id: of, force }) {
    const {
      priorState: _,
      priorResponse: __,
      ...key
    } = await integrations.admin.idempotencyKeys.forget(of, { by, from, force })
    return columns(key)
  },
  show: ({ key }) => `Freed the key "${key}".`,
})
