/** The framework in this process, its Stripe a script. */
import { asc, eq } from 'drizzle-orm'
import { StripeProvider } from '../../../src/adapters/stripe/index.ts'
import { partsOf } from '../../../src/create-integrations.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { PlayedApi, ScriptedReply, ScriptedTransport, TestIntegrations } from '../../../src/testing/index.ts'
import { createTestIntegrations, scriptedTransport } from '../../../src/testing/index.ts'

export const API_KEY = 'sk_test_4eC39HqLyjWDarjtT1zdp7dc'
const NO_SCRIPT = scriptedTransport([])

export class StripeKit {
  readonly provider = new StripeProvider()
  wire: ScriptedTransport = NO_SCRIPT
  #kit: TestIntegrations | null = null

  async open(): Promise<void> {
    // Scripted by each test.
    const transport = { ...NO_SCRIPT, fetch: (...given) => this.wire.fetch(...given) } satisfies ScriptedTransport
    this.#kit = await createTestIntegrations({
      providers: { stripe: this.provider },
      transport,
      // Where a Stripe that runs here would be.
      egress: { allow: ['127.0.0.1'] },
    })
  }

  get kit(): TestIntegrations {
    if (this.#kit === null) throw new TypeError('open() comes first')
    return this.#kit
  }

  script(...replies: ScriptedReply[]): void {
    this.wire = scriptedTransport(replies)
  }

  /** For answers that no script has: a body that breaks off, an error of one's own. */
  play(api: PlayedApi): void {
    const send = async (...given: ConstructorParameters<typeof Request>) => api(new Request(...given))
    this.wire = { ...scriptedTransport([]), fetch: send }
  }

  account(): Promise<Integration> {
    return this.kit.integrations.create({ provider: 'stripe', name: 'of a test', credentials: { api_key: API_KEY } })
  }

  async rows({ id }: Integration) {
    const { db, tables } = partsOf(this.kit.integrations).framework
    const { requests } = tables
    return db.select().from(requests).where(eq(requests.integrationId, id)).orderBy(asc(requests.id))
  }
}
