/** Works off ordered webhooks under a claim that the test knows, until it is killed. */
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { pumpUntilEmpty } from '../../src/activities/pumping.ts'
import { webhookPumping } from '../../src/activities/webhook-activities.ts'
import { createIntegrations, partsOf } from '../../src/create-integrations.ts'
import { orderedProvider } from './ordered-provider.ts'

const { DATABASE_URL = '', KEYS = '', CLAIM = '' } = process.env
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const integrations = createIntegrations({
  database: DATABASE_URL,
  encryptionKeys: KEYS,
  logger: silent,
  providers: { acme: orderedProvider(postgres(DATABASE_URL, { max: 10 })) },
})
const { framework } = partsOf(integrations)
Object.assign(framework.workflows, { wakeInbox: () => {} })
const surroundings = { cancellationSignal: new AbortController().signal, info: { attempt: 1 } }
process.send?.('ready')
for (;;) {
  await pumpUntilEmpty(framework, webhookPumping(framework), surroundings, CLAIM)
  await sleep(20)
}
