/** Keyed writes through `request()`: a few keys at a time, of a provider that knows keys and of one that doesn't. */
import { forgetIdempotencyKey, idempotencyRecord } from '../../src/calls/idempotency.ts'
import type { IdempotencyConflict } from '../../src/framework/errors.ts'
import { isIntegrationsError } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { Subject } from './history.ts'
import { now } from './history.ts'
import type { Lane } from './lane.ts'
import { pick, rest } from './lane.ts'

/** Longer than a round: the turn of a process that was killed lasts to the end. */
const TIMEOUT_MS = 120_000
const KEYS_AT_ONCE = 2
/** Enough callers for a conflict, and calls of all ends. */
const ENDS = [
  { how: 'answered', status: 200 },
  { how: 'refused', status: 422 },
  { how: 'unknown', status: 503 },
] as const

type Handles = Readonly<Record<'plain' | 'knowing', Integration>>

export async function writeOn(lane: Lane, handles: Handles): Promise<void> {
  while (!lane.isOver()) {
    const which = lane.random() < 0.5 ? 'plain' : 'knowing'
    const integration = handles[which]
    const key = `${lane.slice()}:${Math.floor(lane.random() * KEYS_AT_ONCE)}`
    const subject: Subject = {
      object: `${which}:${integration.id}:${key}`,
      model: which === 'plain' ? 'ledger' : 'turns',
    }
    const what = lane.random()
    if (what < 0.75) await write(lane, integration, subject, key)
    else if (what < 0.9 || which === 'knowing') await look(lane, integration, subject, key)
    else await forget(lane, integration, subject, key)
    await rest(lane, 3)
  }
}

async function write(lane: Lane, integration: Integration, subject: Subject, key: string): Promise<void> {
  const { history, client } = lane
  const owner = lane.name()
  const { how, status } = pick(lane, ENDS)
  const since = now()
  const reserved = history.begin(subject, client, { kind: 'reserve', owner })
  let ended: ((output: Record<string, never>) => void) | undefined
  const call = async (): Promise<Response> => {
    reserved({ done: true })
    await rest(lane, 5)
    ended = history.begin(subject, client, { kind: 'end', owner, status: how })
    return new Response('{"id":1}', { status, headers: { 'content-type': 'application/json' } })
  }
  try {
    await integration.request('things', 'POST', call, { idempotencyKey: key, timeoutMs: TIMEOUT_MS, attempts: 1 })
  } catch (error) {
    if (isIntegrationsError(error, 'idempotency_conflict')) {
      const { priorState } = error as IdempotencyConflict
      reserved({ prior: priorState === 'unknown' ? 'unknown' : 'answered' })
      return
    }
    // Else the key is spent or not. A caller whose session is cut before its call goes out lets go of what it has.
    if (!isIntegrationsError(error, 'http_error')) {
      if (ended === undefined) history.begin(subject, client, { kind: 'let go', owner }, since)({})
      throw error
    }
  }
  ended?.({})
}

async function look({ framework, history, client }: Lane, { id }: Integration, subject: Subject, key: string) {
  await history.record(
    subject,
    client,
    { kind: 'record' },
    () => idempotencyRecord(framework, id, key),
    (known) => ({ prior: known === null ? 'none' : known.priorState === 'unknown' ? 'unknown' : 'answered' }),
  )
}

async function forget({ framework, history, client }: Lane, { id }: Integration, subject: Subject, key: string) {
  await history.record(
    subject,
    client,
    { kind: 'forget' },
    () => forgetIdempotencyKey(framework, id, key),
    (done) => ({ done }),
  )
}
