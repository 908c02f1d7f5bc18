/** Handles again what was handled, with the code of this process, in a copy of the database. Rule: docs/behaviour/rehearsal.md. */
import { isNotNull, like, or, sql } from 'drizzle-orm'
import { aroundIntegrationId } from '../cache/integration-keys.ts'
import { targetOf } from '../forwarding/hand-over.ts'
import type { Framework, WorkflowStarters } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { errorLine } from '../framework/logger.ts'
import type { IntegrationContext } from '../integrations/integration-contexts.ts'
import { IntegrationContexts } from '../integrations/integration-contexts.ts'
import { isSwitchedOffByPerson } from '../integrations/rules.ts'
import { runSyncItem } from '../syncs/items/run-item.ts'
import { runWebhook } from '../webhooks/handling.ts'
import { withDeliveryHeaders } from '../webhooks/parts.ts'
import { HandledVersions } from '../webhooks/stale-guard.ts'
import type { HandledRow, LastAttempt } from './history.ts'
import { cachedThen, handledSince, readHandled, spentElsewhere, typeOf, unplayable } from './history.ts'
import { withoutMoments } from './moment-rules.ts'
import type { Handled, Piece, Played, Recording, RehearsalInput, RowChange } from './rehearsal-jobs.ts'
import { takeChanges, watchRows } from './row-changes.ts'
import { StoredAnswers } from './stored-answers.ts'

export interface Playing {
  /** Connections and programs that were refused since the last call. */
  readonly refused: () => readonly string[]
  readonly signal: AbortSignal
  readonly progress?: ((done: number, all: number) => void) | undefined
}

const CLAIM = 'rehearsal'
/** Pieces whose rows, payloads and calls are in memory together. */
const READ_AT_ONCE = 100

/** The object is not to be used for anything else after: it answers from the log, and knows no Temporal. */
export async function play(framework: Framework, input: RehearsalInput, playing: Playing): Promise<Recording> {
  const answers = new StoredAnswers()
  const started: string[] = []
  let at = new Date()
  Object.assign(framework, {
    request: answers.request,
    egress: answers.egress,
    workflows: notedStarters(started),
    // So that a token that was good then is good now.
    clock: { now: () => at },
    isRehearsal: true,
  } satisfies Partial<Framework>)
  const beganAt = new Date()
  await forgetTurns(framework)
  await watchRows(framework)
  const { refs, more } = await handledSince(framework, input)
  const contexts = new IntegrationContexts(framework)
  const handled = new HandledVersions()
  const pieces: Piece[] = []
  for (let from = 0; from < refs.length; from += READ_AT_ONCE)
    for (const { piece, last } of await readHandled(framework, refs.slice(from, from + READ_AT_ONCE))) {
      playing.signal.throwIfAborted()
      at = piece.handledAt
      const integration = await contexts.read(piece.row.integrationId)
      const reason = unplayable(piece, last) ?? last.unclear ?? elsewhere(framework, piece, integration)
      let now: Played | null = null
      let cannot: readonly string[] = reason === null ? [] : [reason]
      if (reason === null) {
        answers.begin({
          stored: last.calls,
          cached: (hash) => cachedThen(framework, piece.row.integrationId, hash, piece.handledAt),
          spent: (key) => spentElsewhere(framework, piece, key),
          error: last.loggedError,
        })
        playing.refused()
        const end = await handle(framework, piece, { integration, handled, signal: playing.signal })
        const asked = answers.end()
        const refused = playing.refused()
        const rows = await takeChanges(framework)
        now = { ...end, calls: asked.calls, rows, started: started.splice(0), refused }
        cannot = [...asked.cannot, ...new Set(refused.map((what) => `it reaches the network by itself: ${what}`))]
      }
      pieces.push({ ...told(piece, last), now, cannot })
      playing.progress?.(pieces.length, refs.length)
    }
  return { pieces: pieces.map((piece) => settled(piece, { beganAt, endedAt: new Date() })), more }
}

function told({ kind, row, handledAt }: HandledRow, { handled, calls }: LastAttempt): Omit<Piece, 'now' | 'cannot'> {
  return {
    kind,
    id: row.id,
    integrationId: row.integrationId,
    type: typeOf(kind, row),
    handledAt: handledAt.toISOString(),
    happened: { ...handled, calls: calls.map(({ last: _, isCached: __, ...call }) => call) },
  }
}

/** Moments of the rehearsal itself differ from one to the next. */
function settled(piece: Piece, span: { beganAt: Date; endedAt: Date }): Piece {
  if (piece.now === null) return piece
  const rows: RowChange[] = piece.now.rows.map((change) => ({
    ...change,
    before: withoutMoments(change.before, span),
    after: withoutMoments(change.after, span),
  }))
  return { ...piece, now: { ...piece.now, rows, result: withoutMoments(piece.now.result, span) } }
}

/** Why it can't be handled here; null: it can. */
function elsewhere(
  framework: Framework,
  { kind, row }: HandledRow,
  integration: IntegrationContext | null,
): string | null {
  if (integration === null) return `the integration ${row.integrationId} is gone`
  if (isSwitchedOffByPerson(integration.row)) return 'the integration is switched off by now'
  try {
    return targetOf(framework, kind === 'webhook' ? 'webhooks' : 'items', integration.handle) === null
      ? null
      : 'it is handled elsewhere (handledBy)'
  } catch (error) {
    return `handledBy threw ${errorLine(error, 300)}`
  }
}

interface Handling {
  readonly integration: IntegrationContext | null
  readonly handled: HandledVersions
  readonly signal: AbortSignal
}

async function handle(
  framework: Framework,
  piece: HandledRow,
  { integration, handled, signal }: Handling,
): Promise<Handled> {
  if (piece.kind === 'webhook') {
    const row = await withDeliveryHeaders(framework.db, framework.tables, { ...piece.row, claim: CLAIM })
    const outcome = await runWebhook(framework, row, integration, { handled, enough: signal })
    if (outcome === null) return { status: 'put off', error: null, result: null }
    const status = outcome.status === 'processed' ? 'succeeded' : 'failed'
    return { status, error: outcome.error, result: outcome.result }
  }
  const { step, message } = await runSyncItem(framework, { ...piece.row, claim: CLAIM }, integration, {
    cancelled: signal,
    enough: signal,
    retry: null,
    waitsFor: null,
    change: null,
    claimedAt: framework.clock.now(),
  })
  if (step.kind === 'succeed') return { status: 'succeeded', error: null, result: null }
  // A retry by hand has tries of its own: whether another attempt would follow is not compared.
  const isFailure = step.kind === 'fail' || step.because === 'failed'
  return { status: isFailure ? 'failed' : 'put off', error: message, result: null as Json }
}

/** The copy has locks of processes that live elsewhere, and of stale guards the versions at the end of the time that is played. */
async function forgetTurns({ db, config, tables: { cache, idempotencyKeys } }: Framework): Promise<void> {
  const [before, after] = aroundIntegrationId('webhook-version:')
  const versions = like(cache.key, `${config.cache_prefix}:${before}%${after}%`)
  await db.update(idempotencyKeys).set({ turnEndsAt: null }).where(isNotNull(idempotencyKeys.turnEndsAt))
  await db.delete(cache).where(or(sql`${cache.owner} is not null`, versions))
}

/** Temporal is out of reach: what would be started is noted, what waits for an answer is refused. */
function notedStarters(started: string[]): WorkflowStarters {
  const silent = async (): Promise<void> => {}
  const known: Partial<WorkflowStarters> = {
    wakeInbox: () => {},
    wakeOutbox: () => {},
    followIncident: () => {},
    keepWebhookSubscription: () => {},
    callPump: silent,
    nudgeSync: silent,
    close: silent,
    async startHandler({ workflow }) {
      started.push(workflow)
    },
    async startSync(integrationId, _provider, options) {
      started.push(`sync of integration ${integrationId}${options?.stream === undefined ? '' : `, ${options.stream}`}`)
      return { runId: 'rehearsal' }
    },
  }
  return new Proxy(known as WorkflowStarters, {
    get(target, name, receiver) {
      if (typeof name === 'symbol' || name in target) return Reflect.get(target, name, receiver)
      return async () => {
        throw new Error(`${name}() needs a Temporal server, and a rehearsal has none`)
      }
    },
  })
}
