/** Each command of the catalogue, three ways: commands-three-ways.e2e.test.ts runs them. */
import { expect } from 'vitest'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook, setIntegration } from '../support/rows.ts'
import type { Scene } from './commands-three-ways-scene.ts'

/** What the command is about; each way has one of its own where the command changes it. */
type Subject = number | string

export interface Row {
  readonly command: string
  /** What sets this row apart from the command's others. */
  readonly variant?: string
  /** Nothing else runs meanwhile: its result is about everything there is. */
  readonly isAlone?: true
  /** Made anew for each way. Without it nothing is made. */
  readonly subject?: (scene: Scene) => Promise<Subject>
  readonly words: (subject: Subject) => readonly (string | number)[]
  readonly input: (subject: Subject) => Record<string, unknown>
  /** Default: the command's words. */
  readonly wrapperWords?: (subject: Subject) => readonly (string | number)[]
  /** The facts in the command line's document that the workflow's result has, too. Default: the whole document. */
  readonly facts?: (document: never) => unknown
  /** The same facts in the result. Default: of the program's result the same, of a workflow's own the whole. */
  readonly resultFacts?: (result: never) => unknown
  /** Fields of the document that differ from one run to the next. */
  readonly without?: readonly string[]
  /** What the result must be like, so that two empty ones are not taken for equal ones. */
  readonly expected: object
  readonly exitCode?: 1
}

/** Those whose command line asks Temporal. The others do without it, but `doctor`, which says that it is away. */
export const NEEDS_TEMPORAL: ReadonlySet<string> = new Set([
  'refresh-tokens',
  'evaluate-failures',
  'delete',
  'erase',
  'sync',
  'sync-progress',
  'pause-sync',
  'resume-sync',
  'cancel-sync',
  'retry-sync-item',
  'replay-webhook',
  'recover-webhooks',
  'reconcile-webhooks',
  'prune',
])

const AGO = new Date('2020-01-01T00:00:00Z')
/** An incident is snoozed for 30 days at most. */
const IN_DAYS = new Date(Date.now() + 5 * 86_400_000).toISOString()
export const LATER = '2099-06-01T12:00:00.000Z'
let made = 0

const integration = async ({ test }: Scene, provider = 'demo'): Promise<number> =>
  (await makeIntegration(test, provider)).id

/** The same for all three ways. */
function kept(make: (scene: Scene) => Promise<number>): (scene: Scene) => Promise<Subject> {
  let subject: Promise<number> | undefined
  return (scene) => {
    subject ??= make(scene)
    return subject
  }
}

const authorized = async ({ test }: Scene): Promise<number> =>
  (await makeIntegration(test, 'oauth', { credentials: { access_token: 'one', refresh_token: 'two' } })).id

const incident = async (scene: Scene): Promise<number> => (await makeIncident(scene.test, await integration(scene))).id

const token = async ({ test }: Scene, limits: { readonly provider?: string } = {}): Promise<number> => {
  const { tokens } = test.integrations.admin
  return (await tokens.create({ name: `three-ways-${++made}`, scope: 'read', by: 'test', ...limits })).id
}

const held = async (scene: Scene): Promise<number> => {
  const id = await integration(scene)
  await scene.test.integrations.syncs.pause(id)
  return id
}

const failedItem = async (scene: Scene): Promise<number> => {
  const run = await endedRun(scene)
  const item = await makeItem(scene.test, run, { status: 'failed', attempts: 1, error: 'Error: no', completedAt: AGO })
  return item.id
}

const endedRun = async (scene: Scene) =>
  makeRun(scene.test, await integration(scene), { failure_count: 1 }, { status: 'partial', durationMs: 5 })

/** After a full listing that named nothing of what is mapped, as the one before it. */
const withheldRun = async ({ test }: Scene): Promise<number> => {
  const { id } = await makeIntegration(test, 'demo')
  const { db, tables } = test.framework
  const mapping = { integrationId: id, externalId: 'gone', internalType: 'note', internalId: '1', createdAt: AGO }
  await db.insert(tables.mappings).values(mapping)
  const listing = { full_listing: { internal_type: 'note' }, listed: 0 }
  await makeRun(test, id, listing, { status: 'success' })
  const withheld = { ...listing, missing_withheld: { missing: 1, mapped: 1 } }
  return (await makeRun(test, id, withheld, { status: 'success' })).id
}

const byId = (id: Subject): Record<string, unknown> => ({ id })

/** Without who acted, and when. */
const incidentFacts = (incident: { id: number; snoozed_until: string | null; annotations: { text: string }[] }) => ({
  id: incident.id,
  snoozed_until: incident.snoozed_until,
  texts: incident.annotations.map(({ text }) => text),
})

/** The others' integrations count, too. */
const withoutChecked = ({ checked: _, ...rest }: { checked: number }) => rest
const itemErrors = (items: { id: number; error: string }[]) => items.map(({ id, error }) => [id, error])
const firstOrphan = ({ rows: [first], ...rest }: { rows: { id: string }[] }) => ({ ...rest, first: first?.id })

export const TABLE: readonly Row[] = [
  {
    command: 'doctor',
    isAlone: true,
    words: () => ['--fail-on', 'fault'],
    input: () => ({ failOn: 'fault' }),
    facts: ({ ok, findings }: { ok: boolean; findings: { check: string; status: string }[] }) => ({
      ok,
      findings: findings.map(({ check, status }) => [check, status]),
    }),
    expected: { ok: true, findings: expect.arrayContaining([['temporal.workers', 'ok']]) },
  },
  {
    command: 'config',
    words: () => ['webhook.max_attempts'],
    input: () => ({ key: 'webhook.max_attempts' }),
    expected: [{ key: 'webhook.max_attempts' }],
  },
  {
    command: 'keys',
    isAlone: true,
    words: () => ['rotate', '--dry-run'],
    input: () => ({ action: 'rotate', dryRun: true }),
    expected: { primary: 'k1', reencrypted: 0 },
  },
  {
    command: 'install',
    subject: async () => `O'Brien's "$(touch gone)" \\ \`id\`; rm -rf . #${++made}`,
    words: (name) => ['demo', '--name', name, '--credential', 'token=env:DEMO_TOKEN', '--metadata', 'region=eu west'],
    input: (name) => ({
      provider: 'demo',
      name,
      credential: ['token=env:DEMO_TOKEN'],
      metadata: { region: 'eu west' },
    }),
    without: ['id', 'webhook_address'],
    expected: { name: '(subject)', provider: 'demo', created: true, check: { ok: true } },
  },
  {
    command: 'oauth-status',
    subject: kept(authorized),
    words: (id) => [id],
    input: byId,
    expected: { connected: true, has_refresh_token: true },
  },
  {
    command: 'refresh-tokens',
    subject: authorized,
    words: (id) => [id],
    input: (id) => ({ integrationId: id }),
    facts: ({ reauth_required, ...rest }: { reauth_required: number }) => ({
      ...rest,
      reauthRequired: reauth_required,
    }),
    expected: { checked: 1, refreshed: 1, failed: 0, reauthRequired: 0 },
  },
  {
    command: 'revoke-oauth',
    subject: authorized,
    words: (id) => [id, '--yes'],
    input: (id) => ({ id, yes: true }),
    expected: { revoked: true },
  },
  {
    command: 'list',
    subject: kept((scene) => integration(scene, 'quiet')),
    words: () => ['--provider', 'quiet', '--limit', 10],
    input: () => ({ provider: 'quiet', limit: 10 }),
    expected: [{ id: '(subject)', provider: 'quiet' }],
  },
  { command: 'show', subject: kept(integration), words: (id) => [id], input: byId, expected: { provider: 'demo' } },
  { command: 'test', subject: kept(integration), words: (id) => [id], input: byId, expected: [{ ok: true }] },
  { command: 'enable', subject: integration, words: (id) => [id], input: byId, expected: { is_active: true } },
  { command: 'disable', subject: integration, words: (id) => [id], input: byId, expected: { is_active: false } },
  {
    command: 'circuit',
    subject: integration,
    words: (id) => [id, 'open', '--until', LATER],
    input: (id) => ({ id, action: 'open', until: LATER }),
    expected: { override: 'forced_open', override_until: LATER },
  },
  {
    command: 'rate-limit',
    subject: integration,
    words: (id) => [id, 'set', '--limit', 5, '--window', 60, '--sliding'],
    input: (id) => ({ id, action: 'set', limit: 5, window: 60, sliding: true }),
    // Each way is an act of its own.
    without: ['set_by', 'set_at'],
    expected: { source: 'override', limit: 5, window_seconds: 60 },
  },
  {
    command: 'health',
    subject: kept(integration),
    words: (id) => [id],
    input: byId,
    expected: { id: '(subject)' },
  },
  {
    command: 'health',
    variant: 'with a part that fails',
    subject: kept(async (scene) => {
      const id = await integration(scene)
      await setIntegration(scene.test, id, { healthStatus: 'failing' })
      return id
    }),
    words: (id) => [id, 'report', '--fail-on', 'degraded'],
    input: (id) => ({ id, action: 'report', failOn: ['degraded'] }),
    expected: { id: '(subject)', health_status: 'failing' },
    exitCode: 1,
  },
  {
    command: 'stats',
    words: () => ['--provider', 'quiet', '--since', '7d'],
    input: () => ({ provider: 'quiet', since: '7d' }),
    expected: { requests: 0 },
  },
  {
    command: 'evaluate-failures',
    isAlone: true,
    words: () => [],
    input: () => ({}),
    facts: withoutChecked,
    resultFacts: withoutChecked,
    expected: { enabled: true, elevated: [], recovered: [] },
  },
  {
    command: 'incidents',
    subject: kept(async (scene) => {
      const id = await integration(scene)
      await makeIncident(scene.test, id)
      return id
    }),
    words: (id) => ['--integration', id, '--status', 'open'],
    input: (id) => ({ integration: id, status: 'open' }),
    expected: [{ integration_id: '(subject)' }],
  },
  {
    command: 'acknowledge-incident',
    subject: incident,
    words: (id) => [id, '--note', "it's me"],
    input: (id) => ({ id, note: "it's me" }),
    facts: incidentFacts,
    expected: { id: '(subject)', texts: ["it's me"] },
  },
  {
    command: 'snooze-incident',
    subject: incident,
    words: (id) => [id, '--until', IN_DAYS],
    input: (id) => ({ id, until: IN_DAYS }),
    facts: incidentFacts,
    expected: { id: '(subject)', snoozed_until: '(moment)' },
  },
  {
    command: 'annotate-incident',
    subject: incident,
    words: (id) => [id, 'still $(down)'],
    input: (id) => ({ id, text: 'still $(down)' }),
    facts: incidentFacts,
    expected: { id: '(subject)', texts: ['still $(down)'] },
  },
  {
    command: 'delete',
    subject: integration,
    words: (id) => [id, '--yes'],
    input: (id) => ({ id, yes: true }),
    expected: {},
  },
  {
    command: 'erase',
    subject: integration,
    words: (id) => [id, '--yes'],
    input: (id) => ({ id, yes: true }),
    expected: {},
  },
  {
    command: 'sync',
    variant: 'of all that is due',
    isAlone: true,
    subject: async (scene) => {
      const id = await integration(scene)
      await setIntegration(scene.test, id, { syncIntervalMinutes: 60, nextSyncAt: AGO, lastSyncedAt: new Date() })
      return id
    },
    words: () => [],
    input: () => ({}),
    facts: ({ already_running, ...rest }: { already_running: number }) => ({
      ...rest,
      alreadyRunning: already_running,
    }),
    expected: { due: 1, started: 1, alreadyRunning: 0, stale: [], recovered: [] },
  },
  {
    command: 'sync',
    variant: 'of one',
    subject: integration,
    words: (id) => ['--integration', id],
    input: (id) => ({ integrationId: id }),
    expected: { integration_id: '(subject)', outcome: 'started', started: 1, already_running: false },
  },
  {
    command: 'sync-progress',
    subject: held,
    words: (id) => [id],
    input: byId,
    expected: { progress: { phase: 'held', is_paused: true } },
  },
  { command: 'pause-sync', subject: integration, words: (id) => [id], input: byId, expected: { paused: true } },
  { command: 'resume-sync', subject: held, words: (id) => [id], input: byId, expected: { resumed: true } },
  {
    command: 'cancel-sync',
    subject: held,
    words: (id) => [id, '--yes'],
    input: (id) => ({ id, yes: true }),
    expected: { cancelled: true },
  },
  {
    command: 'list-sync-runs',
    subject: kept(async (scene) => (await endedRun(scene)).integrationId),
    words: (id) => ['--integration', id],
    input: (id) => ({ integration: id }),
    expected: [{ integration_id: '(subject)', status: 'partial', failed: 1 }],
  },
  {
    command: 'show-sync-run',
    subject: kept(async (scene) => (await endedRun(scene)).id),
    words: (id) => [id],
    input: byId,
    expected: { id: '(subject)', status: 'partial' },
  },
  {
    command: 'confirm-missing',
    subject: withheldRun,
    words: (id) => [id, '--yes'],
    input: (id) => ({ id, yes: true }),
    without: ['integration_id'],
    expected: { missing: 1, mapped: 1, examples: ['gone'], told: 1 },
  },
  {
    command: 'finalise-sync-run',
    subject: async (scene) => (await endedRun(scene)).id,
    words: (id) => [id],
    input: byId,
    expected: { runs: 0, from: null, to: null },
  },
  {
    command: 'list-sync-items',
    subject: kept(async (scene) => {
      const run = await endedRun(scene)
      await makeItem(scene.test, run, { status: 'failed', attempts: 1, error: 'Error: no', completedAt: AGO })
      return run.integrationId
    }),
    words: (id) => ['--integration', id, '--status', 'failed'],
    input: (id) => ({ integration: id, status: 'failed' }),
    expected: [{ integration_id: '(subject)', error: 'Error: no' }],
  },
  {
    command: 'list-failed-items',
    subject: kept(async (scene) => {
      const run = await endedRun(scene)
      await makeItem(scene.test, run, { status: 'failed', attempts: 1, error: 'Error: no', completedAt: AGO })
      return run.integrationId
    }),
    words: (id) => ['--integration', id, '--limit', 5],
    input: (id) => ({ integrationId: id, limit: 5 }),
    facts: itemErrors,
    resultFacts: itemErrors,
    expected: [[expect.any(Number), 'Error: no']],
  },
  {
    command: 'retry-sync-item',
    subject: failedItem,
    words: (id) => [id],
    input: (id) => ({ itemId: id }),
    facts: ([{ item_id, ...rest }]: [{ item_id: number }]) => ({ itemId: item_id, ...rest }),
    resultFacts: (result) => result,
    expected: { itemId: '(subject)', outcome: 'success', attempts: 2 },
  },
  {
    command: 'skip-sync-item',
    subject: failedItem,
    words: (id) => [id],
    input: (id) => ({ itemId: id }),
    facts: ({ item_id, cursor_moved }: { item_id: number; cursor_moved: boolean }) => ({
      itemId: item_id,
      cursorMoved: cursor_moved,
    }),
    resultFacts: ({ itemId, cursorMoved }: { itemId: number; cursorMoved: boolean }) => ({ itemId, cursorMoved }),
    expected: { itemId: '(subject)' },
  },
  {
    command: 'advance-cursor',
    subject: integration,
    words: (id) => [id, '--reclaim-stale', '--limit', 3],
    input: (id) => ({ integrationId: id, reclaimStale: true, limit: 3 }),
    facts: ({ integration_id: _, stream: __, ...rest }: { integration_id: number; stream: null }) => rest,
    expected: { runs: 0, from: null, to: null, reclaimed: 0 },
  },
  {
    command: 'sync-interval',
    subject: integration,
    words: (id) => [id, 15],
    input: (id) => ({ id, minutes: 15 }),
    facts: ({ id, sync_interval_minutes }: { id: number; sync_interval_minutes: number }) => ({
      id,
      sync_interval_minutes,
    }),
    expected: { id: '(subject)', sync_interval_minutes: 15 },
  },
  {
    command: 'list-webhooks',
    subject: kept(async (scene) => {
      const id = await integration(scene)
      await makeWebhook(scene.test, id, { status: 'processed', attempts: 1, processedAt: AGO })
      return id
    }),
    words: (id) => ['--integration', id, '--status', 'processed'],
    input: (id) => ({ integration: id, status: 'processed' }),
    expected: [{ integration_id: '(subject)', status: 'processed' }],
  },
  {
    command: 'replay-webhook',
    subject: async (scene) =>
      (await makeWebhook(scene.test, await integration(scene), { status: 'failed', attempts: 1, error: 'Error: no' }))
        .id,
    words: (id) => [id],
    input: (id) => ({ webhookId: id, replay: true }),
    wrapperWords: (id) => [id],
    facts: ({ webhook_id, error: _, ...rest }: { webhook_id: number; error: null }) => ({
      webhookId: webhook_id,
      ...rest,
    }),
    expected: { webhookId: '(subject)', outcome: 'processed', attempts: 2 },
  },
  {
    command: 'dismiss-webhook',
    subject: async (scene) =>
      (await makeWebhook(scene.test, await integration(scene), { status: 'failed', attempts: 1, error: 'no' })).id,
    words: (id) => [id],
    input: byId,
    facts: ({ dismissed_at, ...rest }: { dismissed_at: string | null }) => ({
      ...rest,
      isDismissed: dismissed_at !== null,
    }),
    resultFacts: ({ dismissed_at, ...rest }: { dismissed_at: string | null }) => ({
      ...rest,
      isDismissed: dismissed_at !== null,
    }),
    expected: { webhook_id: '(subject)', status: 'failed', isDismissed: true },
  },
  {
    command: 'recover-webhooks',
    isAlone: true,
    subject: async (scene) => (await makeWebhook(scene.test, await integration(scene), { updatedAt: AGO })).id,
    words: () => [],
    input: () => ({}),
    expected: { processing: 0, pending: 1, failed: 0 },
  },
  {
    command: 'reconcile-webhooks',
    isAlone: true,
    subject: integration,
    words: (id) => [id, '--dry-run'],
    input: (id) => ({ integrationId: id, dryRun: true }),
    facts: ({ too_large, ...rest }: { too_large: number }) => ({ ...rest, tooLarge: too_large }),
    expected: { integrations: 1, seen: 1, inserted: 1, tooLarge: 0 },
  },
  {
    command: 'find-orphans',
    words: () => ['note', '--limit', 1],
    input: () => ({ model: 'note', limit: 1 }),
    facts: firstOrphan,
    resultFacts: firstOrphan,
    expected: { model: 'note', scanned: 2, orphans: 2, first: 'a' },
  },
  {
    command: 'prune',
    isAlone: true,
    subject: async (scene) => {
      const { db, tables } = scene.test.framework
      const integrationId = await integration(scene)
      await db.insert(tables.requests).values({ integrationId, endpoint: 'users', method: 'GET', createdAt: AGO })
      return integrationId
    },
    words: () => [],
    input: () => ({}),
    resultFacts: ({ counts, failed }: { counts: object; failed: unknown }) => ({ ...counts, failed }),
    expected: { requests: 1, webhooks: 0, failed: [] },
  },
  { command: 'notifications', words: () => ['status'], input: () => ({ action: 'status' }), expected: { waiting: 0 } },
  {
    command: 'audit',
    subject: kept(async (scene) => {
      const id = await integration(scene)
      await scene.test.integrations.admin.operator.note(id, {
        token: 'ada',
        action: 'look',
        target: `integration:${id}`,
      })
      return id
    }),
    words: (id) => ['--integration', id, '--by', 'ada'],
    input: (id) => ({ integration: id, by: 'ada' }),
    expected: [{ by: 'ada', action: 'look', integration: { id: '(subject)' } }],
  },
  {
    command: 'list-tokens',
    subject: kept((scene) => token(scene, { provider: 'quiet' })),
    words: () => ['--state', 'good', '--provider', 'quiet'],
    input: () => ({ state: 'good', provider: 'quiet' }),
    expected: [{ id: '(subject)', provider: 'quiet' }],
  },
  {
    command: 'revoke-token',
    subject: token,
    words: (id) => [id, '--yes'],
    input: (id) => ({ id, yes: true }),
    without: ['name', 'created_at', 'revoked_at'],
    expected: { id: '(subject)', state: 'revoked' },
  },
]
