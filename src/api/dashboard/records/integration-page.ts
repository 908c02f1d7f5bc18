/** The page of one integration: what keeps it from working, what it has done lately, and all that can be done with it. */
import { html } from 'hono/html'
import type { z } from 'zod'
import { abilityWords } from '../../../commands/ability-words.ts'
import type { show } from '../../../commands/integrations/show.ts'
import type { CircuitState } from '../../../commands/shapes.ts'
import type { HealthDocument as Health } from '../../../commands/trouble/health.ts'
import type { rateLimit } from '../../../commands/trouble/rate-limit.ts'
import { percentOf } from '../../../integrations/rules.ts'
import type { Figures } from '../../../rollups/series.ts'
import type { SchedulePause } from '../../../syncs/pause-rules.ts'
import { runUnderWay } from '../../../syncs/run-rules.ts'
import { intervalText } from '../../../syncs/stream-rules.ts'
import { matchText } from '../../../webhooks/rules.ts'
import type { Act } from '../acts/acts.ts'
import { buttons } from '../acts/acts.ts'
import { ask } from '../acts/operation-door.ts'
import { format } from '../charts/charts.ts'
import type { StateNow } from '../charts/state-diagram.ts'
import type { Section } from '../frame/frame.ts'
import type { Markup } from '../frame/markup.ts'
import { badge, body, facts, json, NOTHING, tableOf, time } from '../frame/markup.ts'
import type { Row } from '../lists/row-columns.ts'
import { ROW_COLUMNS } from '../lists/row-columns.ts'
import type { Asking, Detail } from './detail-page.ts'
import { part } from './detail-page.ts'
import { connectPath, nextSync, notStarted, pausedText, reauthorize } from './integration-standing.ts'
import { rowLink } from './record-links.ts'

type Integration = Awaited<ReturnType<typeof show.run>>
type Stream = Integration['streams'][number]
type Circuit = z.infer<typeof CircuitState>
type RateLimit = Awaited<ReturnType<typeof rateLimit.run>>
type Failures = { readonly data: readonly { readonly error: string; readonly count: number }[] }

/** Rows of each list. */
const SHOWN = '8'
/** The most frequent. */
const ERRORS = '3'

export async function integrationDetail(asking: Asking): Promise<Detail> {
  const { integrations, context, id } = asking
  const of = <Answer>(key: string, more: Readonly<Record<string, string>> = {}) =>
    ask<Answer>(integrations, context, key, { id: String(id), ...more })
  const [integration, health, day, failures, circuit, limit, schedulePause, lists] = await Promise.all([
    of<Integration>('get /integrations/:id'),
    // Its day comes from the sums behind the charts: a busy one has tens of thousands of rows in it.
    of<Health>('get /integrations/:id/health', { identity: 'false', traffic: 'false' }),
    integrations.admin.charts.series({ window: '24h', integrationId: id }),
    ask<Failures>(integrations, context, 'get /failures', { integration: String(id), kind: 'request', limit: ERRORS }),
    of<Circuit>('get /integrations/:id/circuit-override'),
    of<RateLimit>('get /integrations/:id/rate-limit-override'),
    integrations.admin.operator.schedulePause(),
    Promise.all(LISTS.map((list) => newest(asking, list))),
  ])
  // Nothing keeps a host from writing a secret beside the credentials.
  const metadata = await integrations.admin.operator.shownMetadata(id)
  const page = pageOf(asking, integration, schedulePause)
  const { act } = page
  return {
    title: integration.name,
    reference: `integration:${id}`,
    isLive: true,
    acts: offered([
      !integration.is_active && act('post /integrations/:id/enable', 'Enable'),
      integration.switched_off_at === null && act('post /integrations/:id/disable', 'Disable'),
      act('post /integrations/:id/test', 'Test its credentials'),
      act('patch /integrations/:id', 'Change'),
      act('post /integrations/:id/erase', 'Erase its data'),
      act('delete /integrations/:id', 'Delete'),
    ]),
    facts: integrationFacts(page, health, circuit, metadata),
    parts: [
      part('Health', healthOf(health, day.total, failures)),
      circuitPart(page, circuit),
      limitPart(page, limit),
      authorizationPart(page),
      syncPart(page),
      ...lists,
      webhookPart(page),
    ].filter((one) => one !== null),
    states: [
      { chart: 'health', current: health.health_status },
      { chart: 'circuit', current: circuit.state },
      ...authorizationState(integration),
    ],
  }
}

/** What the parts of the page are made with. */
type Page = ReturnType<typeof pageOf>

function pageOf(asking: Asking, integration: Integration, schedulePause: SchedulePause | null) {
  const can = (contract: string): boolean => integration.contracts.includes(contract)
  return {
    asking,
    integration,
    schedulePause,
    can,
    isSynced: can('HasScheduledSync') || can('HasStreams'),
    act: (operation: string, label: string): Act => ({ operation, label, words: { id: String(asking.id) } }),
    acts: (...all: readonly (Act | false)[]): Markup => buttons(asking.reader, offered(all)),
  }
}

/** A false one does not fit the integration. */
const offered = (acts: readonly (Act | false)[]): readonly Act[] => acts.filter((act) => act !== false)

function integrationFacts(page: Page, health: Health, circuit: Circuit, metadata: string): Detail['facts'] {
  const { asking, integration, schedulePause, isSynced } = page
  return {
    Id: asking.id,
    Provider: html`${integration.provider}${integration.registered ? '' : html` <span class="bad">is not registered in this process</span>`}`,
    Owner: integration.owner,
    'Webhooks go to': integration.webhook_address ?? undefined,
    Health: badge(health.health_status),
    Incident:
      health.incident === null
        ? undefined
        : html`${rowLink(asking.reader.root, 'incidents', health.incident.id, health.incident.reason)} open since ${time(health.incident.opened_at)}`,
    'Next sync': isSynced
      ? nextSync({ ...integration, circuit: circuit.override ?? circuit.state }, schedulePause)
      : undefined,
    Streams:
      integration.streams.length === 0
        ? undefined
        : html`<a href="#syncs">${integration.streams.map(({ stream }) => stream).join(', ')}</a>`,
    'Provider can': abilityWords(integration.contracts),
    Credentials:
      integration.credentials === null
        ? html`<span class="bad">can not be read</span>`
        : integration.credentials.join(', '),
    'Former webhook secrets': formerSecrets(integration),
    Metadata: body(metadata, 'Metadata'),
    Made: time(integration.created_at),
    Changed: time(integration.updated_at),
  }
}

function formerSecrets({ former_webhook_secrets: secrets }: Integration): Markup | undefined {
  if (secrets.length === 0) return undefined
  return html`${secrets.length} in force: ${secrets.map(
    ({ until, last_matched_at: matchedAt, is_watched: isWatched }, at) =>
      html`${at === 0 ? '' : ', '}${until === null ? 'for good' : html`until ${time(until)}`} (${matchText(matchedAt, isWatched)})`,
  )}`
}

function circuitPart({ act, acts }: Page, circuit: Circuit): Markup {
  const state = facts({
    State: badge(circuit.state),
    Override:
      circuit.override === null
        ? undefined
        : html`${badge(circuit.override)} ${circuit.override_until === null ? 'for good' : html`until ${time(circuit.override_until)}`}`,
    Failures: circuit.failures,
    'Failure rate': circuit.failure_rate === null ? undefined : `${Math.round(circuit.failure_rate * 10) / 10} %`,
    Opened: circuit.opened_at === null ? undefined : time(circuit.opened_at),
    'Next probe': circuit.retry_at === null ? undefined : time(circuit.retry_at),
  })
  const changes = acts(
    act('put /integrations/:id/circuit-override', 'Override the breaker'),
    circuit.override !== null && act('delete /integrations/:id/circuit-override', 'Give it back to itself'),
  )
  return part('Circuit breaker', html`${state}${changes}`)
}

function limitPart({ act, acts }: Page, limit: RateLimit): Markup {
  const state = facts({
    Limit:
      limit.limit === null ? 'none' : `${limit.limit} calls in ${limit.window_seconds} s, a ${limit.window} window`,
    'Set by': limit.source,
    Used: limit.used,
    'Override until': limit.override_until === null ? undefined : time(limit.override_until),
    'Held back until': limit.suppressed_until === null ? undefined : time(limit.suppressed_until),
  })
  const changes = acts(
    act('put /integrations/:id/rate-limit-override', 'Override the limit'),
    limit.source === 'override' && act('delete /integrations/:id/rate-limit-override', "Give the provider's back"),
  )
  return part('Rate limit', html`${state}${changes}`)
}

function authorizationPart(page: Page): Markup | null {
  const { integration, can, act, acts } = page
  if (!can('HasOAuth2')) return null
  const state = integration.oauth === null ? NOTHING : oauthFacts(integration.oauth)
  const changes = acts(
    act('post /integrations/:id/oauth/link', 'Make a link'),
    act('post /integrations/:id/oauth/refresh', 'Refresh its tokens'),
    act('post /integrations/:id/oauth/revoke', 'Revoke'),
  )
  return part('Authorization', html`${state}${connectOffer(page)}${changes}`)
}

function oauthFacts(oauth: Readonly<Record<string, unknown>>): Markup {
  const named = Object.entries(oauth).map(([name, value]) => [name.replaceAll('_', ' '), shown(value)] as const)
  return facts(Object.fromEntries(named))
}

/** The link to where a person authorizes it, for a reader who may. */
function connectOffer({ asking: { integrations, reader, id }, integration }: Page): Markup {
  const { oauth } = integration
  if (integration.reauth_required)
    return html`<p>A person has to authorize it again: ${reauthorize(integrations, reader, integration)}</p>`
  const connects = connectPath(integrations, id)
  if (!reader.mayOperate || connects === null || oauth?.needs_authorization === false) return NOTHING
  return html`<p><a href="${connects}">${oauth?.connected === true ? 'Reconnect' : 'Connect'}</a></p>`
}

function authorizationState({ oauth, reauth_required: needsPerson }: Integration): readonly StateNow[] {
  if (oauth === null) return []
  const state = oauth.connected === true ? 'connected' : 'waiting'
  return [{ chart: 'authorization', current: needsPerson ? 'needs_person' : state }]
}

function syncPart({ asking, integration, schedulePause, isSynced, can, act, acts }: Page): Markup | null {
  if (!isSynced) return null
  const changes = acts(
    act('post /integrations/:id/sync', 'Sync now'),
    act('post /integrations/:id/pause', 'Pause'),
    act('post /integrations/:id/resume', 'Resume'),
    act('post /integrations/:id/cancel', 'Cancel'),
    (can('HasBackfill') || can('HasStreams')) && act('post /integrations/:id/backfill', 'Backfill'),
    act('post /integrations/:id/sample', 'Sample'),
    act('put /integrations/:id/interval', 'Set the interval'),
    act('put /integrations/:id/cursor', 'Set the cursor'),
    act('delete /integrations/:id/cursor', 'Reset the cursor'),
  )
  return part('Syncs', html`${syncsOf(asking, integration, schedulePause)}${changes}`)
}

function webhookPart({ asking, can, act, acts }: Page): Markup | null {
  if (!can('HandlesWebhooks')) return null
  const failed = { integration: String(asking.id) }
  const changes = acts(
    { operation: 'post /webhooks/replay', label: 'Replay those that failed', words: failed },
    { operation: 'post /webhooks/dismiss', label: 'Dismiss those that failed', words: failed },
    can('ManagesWebhooks') && act('post /integrations/:id/webhook-subscription', 'Register its webhook'),
    can('ManagesWebhooks') && act('post /integrations/:id/webhook-subscription/check', 'Check its webhook'),
    can('ManagesWebhooks') && act('delete /integrations/:id/webhook-subscription', 'Remove its webhook'),
    can('ReconcilesWebhooks') && act('post /integrations/:id/reconcile', 'Ask for missed ones'),
    act('post /integrations/:id/rotate-webhook-secret', 'Rotate the secret'),
  )
  return part('Webhook acts', changes)
}

function healthOf(
  health: Health,
  { calls, failures, byClass, durationMs }: Figures,
  { data: errors }: Failures,
): Markup {
  const rate = percentOf(failures, calls)
  return html`${facts({
    'Failures in a row': health.consecutive_failures,
    'Last failure': time(health.last_error_at),
    'Failing more than usual': health.elevated_since === null ? undefined : html`since ${time(health.elevated_since)}`,
    'Requests of 24 h': html`${calls}${rate === null ? '' : `, ${rate} % failed`}`,
    'Failed, by class': Object.entries(byClass)
      .map(([word, count]) => `${count} ${word}`)
      .join(', '),
    'Median and 95th':
      durationMs.p50 === null
        ? undefined
        : `about ${format('ms', durationMs.p50)}, ${format('ms', durationMs.p95 ?? durationMs.p50)}`,
  })}${
    errors.length === 0
      ? ''
      : tableOf({
          caption: 'The most frequent errors of 24 h',
          columns: [
            { head: 'Error', cell: ({ error }: Failures['data'][number]) => error },
            { head: 'Requests', isNumber: true, cell: ({ count }) => count },
          ],
          rows: errors,
          none: '',
        })
  }`
}

function syncsOf({ reader }: Asking, integration: Integration, schedulePause: SchedulePause | null): Markup {
  const minutes = integration.sync_interval_minutes
  const { streams, remembered, open_run: open } = integration
  return html`${facts({
    Schedule: minutes === null ? "as often as its provider's own interval says" : intervalText(minutes),
    'Last clean sync': time(integration.last_synced_at),
    'Under way':
      open === null
        ? undefined
        : rowLink(reader.root, 'sync-runs', open.id, runUnderWay(open, integration.waiting_items, new Date())),
    'Failed items': integration.failed_items,
    'Waiting items': integration.waiting_items,
    'Asked for':
      remembered.length === 0
        ? undefined
        : remembered.map(
            ({ stream, asked_at: asked, begins_at: begins }) =>
              html`${stream === '' ? '' : `${stream}: `}${asked === null ? '' : 'after this run '}${begins === null ? '' : time(begins)} `,
          ),
    Cursor: streams.length > 0 ? undefined : json(integration.sync_cursor ?? null, 'Cursor'),
  })}${
    streams.length === 0
      ? ''
      : tableOf<Stream>({
          caption: 'Its streams',
          columns: [
            {
              head: 'Stream',
              cell: ({ stream }) =>
                html`<a href="${reader.root}/sync-runs?integration=${integration.id}&amp;stream=${stream}">${stream}</a>`,
            },
            {
              head: 'Interval',
              cell: ({ interval }) => (interval === null ? 'by hand' : `every ${interval.seconds} s: ${interval.age}`),
            },
            {
              head: 'Next',
              cell: ({ pause, next_sync_at: at, waits_for: first }) => {
                if (pause !== null) return pausedText(pause)
                if (schedulePause !== null && at !== null) return notStarted(schedulePause)
                return html`${first === null ? '' : `after the first run of ${first} `}${at === null ? '' : time(at)}`
              },
            },
            { head: 'Last clean', cell: ({ last_synced_at: at }) => time(at) },
            { head: 'Stale since', cell: ({ stale_since: at }) => (at === null ? '' : time(at)) },
            { head: 'Failed runs', isNumber: true, cell: ({ consecutive_sync_failures: n }) => n },
            { head: 'Failed items', isNumber: true, cell: ({ failed_items: n }) => n },
            { head: 'Waiting', isNumber: true, cell: ({ waiting_items: n }) => n },
            { head: 'Cursor', cell: ({ sync_cursor: cursor }) => html`<code>${JSON.stringify(cursor)}</code>` },
            {
              head: 'Acts',
              cell: ({ stream }) =>
                buttons(reader, [
                  {
                    operation: 'post /integrations/:id/sync',
                    label: `Sync ${stream}`,
                    words: { id: String(integration.id), stream },
                  },
                ]),
            },
          ],
          rows: streams,
          none: '',
        })
  }`
}

const shown = (value: unknown): unknown =>
  value instanceof Date
    ? time(value)
    : value === null
      ? null
      : typeof value === 'boolean'
        ? value
          ? 'yes'
          : 'no'
        : String(value)

interface List {
  readonly heading: string
  readonly section: Section & keyof typeof ROW_COLUMNS
  readonly filter: Readonly<Record<string, string>>
}

const LISTS: readonly List[] = [
  { heading: 'Recent runs', section: 'sync-runs', filter: {} },
  { heading: 'Failing items', section: 'sync-items', filter: { status: 'failed', made_up_for: 'false' } },
  { heading: 'Recent calls', section: 'requests', filter: {} },
  { heading: 'Webhooks', section: 'webhooks', filter: {} },
  { heading: 'Incidents', section: 'incidents', filter: {} },
]

async function newest({ integrations, context, reader: { root }, id }: Asking, { heading, section, filter }: List) {
  const words = { ...filter, integration: String(id) }
  const { data } = await ask<{ data: readonly Row[] }>(integrations, context, `get /${section}`, {
    ...words,
    limit: SHOWN,
  })
  const columns = ROW_COLUMNS[section](root).filter(({ head }) => head !== 'Integration')
  return part(
    heading,
    html`${tableOf({ caption: `${heading}, newest first`, columns, rows: data, none: 'None.' })}
<p><a href="${root}/${section}?${new URLSearchParams(words).toString()}">All of them</a></p>`,
  )
}
