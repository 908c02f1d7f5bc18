/**
 * The providers of the campaign's host. Each asks the outside server, and notes in tables of the host's own what it has done.
 *
 * | provider | has |
 * | --- | --- |
 * | shop | webhooks, ordered ones too; calls under a budget that all its integrations share |
 * | batch | deliveries of many events |
 * | bank | OAuth, authorized calls, writes with a key |
 * | crm | syncs of several streams |
 * | acme | subscriptions |
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { ConfigInput } from '../../../src/config/schema.ts'
import type { Integration, ProviderSource } from '../../../src/index.ts'
import type { HandlesWebhooks, HasOAuth2, SharesRateLimit, SyncStream } from '../../../src/provider.ts'
import { isIntegrationsError, RateLimit, SyncItemEvent } from '../../../src/provider.ts'
import { reduceCheckpointsByMax } from '../../../src/syncs/checkpoint-rules.ts'
import { webhookProvider } from '../../support/providers.ts'
import { subscribingProvider } from '../../support/subscribing-provider.ts'
import type { HostNotes } from '../host-notes.ts'
import { patiently } from '../patient-sql.ts'
import { checkpointOf } from '../sync-plan.ts'
import type { StreamName } from './world.ts'
import { BUDGET, entryOf, Many, Payload, REFRESH_THRESHOLD_SECONDS, STREAM_NAMES, STREAMS } from './world.ts'

const Answer = z.object({ answer: z.string() })
const Page = z.object({ items: z.array(z.number().int()), has_more: z.boolean() })
const Tokens = z.object({ access_token: z.string(), refresh_token: z.string(), token_expires_at: z.iso.datetime() })

/** Between two tries of a write whose key was given back, or could not be asked for. */
const WRITE_AGAIN_MS = 500
const WRITE_TRIES = 60

export class Listed extends SyncItemEvent<{ stream: StreamName; n: number }> {
  static override readonly type = 'campaign.listed'
  static override readonly schema = z.object({ stream: z.enum(STREAM_NAMES), n: z.number().int() })
}

/** Short times, so that breakers, retries and retentions all come into play within a minute. */
export const CAMPAIGN_CONFIG: ConfigInput = {
  sync: { item_tries: 3, item_backoff: [1] },
  circuit_breaker: { cooldown_seconds: 3 },
  // The provider is bad on purpose; a person would have to switch it on again.
  health: { disabled_after: null },
  // Longer than any handler works: a deployment interrupts none.
  worker: { shutdown_grace: 20 },
  pruning: {
    requests_days: 1,
    logs_days: 1,
    idempotency_keys_days: 1,
    sync_items_days: 1,
    incidents_days: 1,
    webhooks_days: 1,
    chunk_size: 20,
  },
}

export function campaignProviders(notes: HostNotes, outsideUrl: string): Record<string, ProviderSource> {
  return {
    shop: shop(notes, outsideUrl),
    batch: batch(notes),
    bank: bank(notes, outsideUrl),
    crm: {
      defaultRateLimit: () => null,
      streams: Object.fromEntries(STREAM_NAMES.map((name) => [name, streamOf(name, outsideUrl)])),
    },
    acme: subscribingProvider(),
  }
}

function shop(notes: HostNotes, url: string): HandlesWebhooks & SharesRateLimit {
  return {
    ...webhookProvider({
      handleWebhook: (integration, request, context) =>
        notes.run(context, async () => {
          const { work_ms } = Payload.parse(request.json())
          await notes.call(integration, url, context)
          await sleep(work_ms, undefined, { signal: context.signal })
          await notes.call(integration, url, context)
        }),
    }),
    orderingKey: (request) => Payload.parse(request.json()).key,
    rateLimitScope: () => ({ key: 'app', limit: RateLimit.per(BUDGET.calls, BUDGET.seconds).sliding() }),
  }
}

function batch(notes: HostNotes): HandlesWebhooks {
  return webhookProvider({
    splitWebhook: (request) =>
      Many.parse(request.json()).events.map(({ id, payload }) => ({ id, type: 'thing.changed', payload })),
    handleWebhook: (_integration, request, context) =>
      notes.run(context, async () => {
        const { work_ms } = Payload.parse(request.json())
        await sleep(work_ms, undefined, { signal: context.signal })
      }),
  })
}

function bank(notes: HostNotes, url: string): HandlesWebhooks & HasOAuth2 {
  return {
    ...webhookProvider({
      handleWebhook: (integration, _request, context) =>
        notes.run(context, async () => {
          await whoAmI(integration, url)
          await writeOnce(notes, integration, url, context.deliveryId)
        }),
    }),
    authorizationUrl: () => 'https://bank.example/authorize',
    exchangeCode: async () => ({}),
    revokeToken: async () => {},
    refreshThreshold: () => REFRESH_THRESHOLD_SECONDS,
    refreshToken: (integration) => {
      const { refresh_token } = integration.credentialsArray()
      const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: String(refresh_token) })
      return integration.requestAs(Tokens, 'token', 'POST', ({ signal }) =>
        fetch(`${url}/token/${integration.id}`, { method: 'POST', body, signal }),
      )
    },
  }
}

/** Its failures are the provider's and are not judged: what counts is what became of the tokens. */
async function whoAmI(integration: Integration, url: string): Promise<void> {
  await integration
    .request(
      'me',
      'GET',
      async ({ signal }) => {
        const token = await integration.getAccessToken()
        return fetch(`${url}/me/${integration.id}`, { headers: { authorization: `Bearer ${token}` }, signal })
      },
      { attempts: 1 },
    )
    .catch(() => {})
}

/** Writes until there is an answer, or until its effect is uncertain, and notes which. */
async function writeOnce({ sql }: HostNotes, integration: Integration, url: string, key: string): Promise<void> {
  let note: { state: 'answered' | 'uncertain' | 'given up'; answer: string | null } = {
    state: 'given up',
    answer: null,
  }
  for (let tries = 0; tries < WRITE_TRIES && note.state === 'given up'; tries += 1)
    try {
      const { answer } = await integration.requestAs(
        Answer,
        `/writes/${key}`,
        'POST',
        ({ signal }) => fetch(`${url}/writes/${key}`, { method: 'POST', signal }),
        { idempotencyKey: key, data: { key } },
      )
      note = { state: 'answered', answer }
    } catch (error) {
      if (isIntegrationsError(error, 'idempotency_conflict')) note = spent(error)
      else await sleep(WRITE_AGAIN_MS)
    }
  await patiently(
    () => sql`
      insert into keyed_writes ${sql({ key, ...note })}
      on conflict (key) do update set state = excluded.state, answer = excluded.answer
      where keyed_writes.state <> 'answered'`,
  )
}

function spent(conflict: unknown): { state: 'answered' | 'uncertain'; answer: string | null } {
  const { priorResponse } = conflict as { readonly priorResponse: unknown }
  const answered = Answer.safeParse(priorResponse)
  return answered.success ? { state: 'answered', answer: answered.data.answer } : { state: 'uncertain', answer: null }
}

function streamOf(stream: StreamName, url: string): SyncStream {
  return {
    events: [Listed],
    reduceCheckpoints: reduceCheckpointsByMax,
    async sync(integration, session) {
      for (let after = entryOf(session.cursor()), more = true; more; ) {
        const path = `/list/${integration.id}/${stream}?after=${after}`
        const page = await integration.requestAs(Page, path, 'GET', ({ signal }) => fetch(`${url}${path}`, { signal }))
        for (const n of page.items)
          await session.dispatch(new Listed(integration, { stream, n }), checkpointOf(n), `${stream}-${n}`)
        after = page.items.at(-1) ?? after
        more = page.has_more
      }
    },
  }
}

/** What the host does for an entry: its effect is one row, however often it runs. */
export async function handleListed(
  { sql }: HostNotes,
  integration: number,
  stream: StreamName,
  n: number,
): Promise<void> {
  const entry = { integration, stream, n }
  const { flakyEvery, poisonEvery } = STREAMS[stream]
  const [{ runs, is_cured } = { runs: 0, is_cured: false }] = await patiently(
    () => sql<{ runs: number; is_cured: boolean }[]>`
      insert into entry_runs as e (integration, stream, n, runs) values (${integration}, ${stream}, ${n}, 1)
      on conflict (integration, stream, n) do update set runs = e.runs + 1
      returning runs, exists (select from cure) as is_cured`,
  )
  await sleep((n * 37) % 300)
  if (n % flakyEvery === 0 && runs === 1) throw new Error(`${stream} ${n} fails once`)
  if (poisonEvery !== null && n % poisonEvery === 0 && !is_cured) throw new Error(`${stream} ${n} is poison`)
  await patiently(() => sql`insert into entry_effects ${sql(entry)} on conflict do nothing`)
}

export async function prepareTables({ sql }: Pick<HostNotes, 'sql'>): Promise<void> {
  await sql`create table if not exists keyed_writes (key text primary key, state text not null, answer text)`
  await sql`create table if not exists entry_runs (integration int, stream text, n int, runs int not null, primary key (integration, stream, n))`
  await sql`create table if not exists entry_effects (integration int, stream text, n int, primary key (integration, stream, n))`
  await sql`create table if not exists cure (at timestamptz not null default now())`
  await sql`create table if not exists told_events (id text not null, at timestamptz not null default clock_timestamp())`
}
