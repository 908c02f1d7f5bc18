/** Stores deliveries of 1, 100 and 1,000 events one after the other until it is killed, and tells of each that it has answered. */
import { createIntegrations } from '../../src/create-integrations.ts'
import { splitProvider } from './split-provider.ts'

const { DATABASE_URL = '', INTEGRATION_ID = '', KEYS = '', ROUND = '' } = process.env
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const integrations = createIntegrations({
  database: DATABASE_URL,
  encryptionKeys: KEYS,
  logger: silent,
  providers: { acme: splitProvider() },
})

for (let n = 0; ; n += 1) {
  const size = [1, 100, 1_000][n % 3] as number
  const name = `${ROUND}-${n}-${size}`
  const body = JSON.stringify(Array.from({ length: size }, (_, at) => ({ id: `${name}/${at}`, type: 'thing.made' })))
  process.send?.({ sending: name })
  const arrival = await integrations.webhooks.receive({
    provider: 'acme',
    integrationId: Number(INTEGRATION_ID),
    method: 'POST',
    path: '/',
    query: '',
    headers: new Headers({ 'x-delivery': name }),
    readBody: async () => ({ kind: 'read', bytes: Buffer.from(body) }),
  })
  if (arrival.kind !== 'queued') throw new Error(JSON.stringify(arrival))
  process.send?.({ answered: name })
}
