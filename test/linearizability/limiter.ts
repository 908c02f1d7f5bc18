/** Admissions of two integrations: by their own statement, and by the joined one. Rule: docs/behaviour/requests.md, "Admission". */
import type { CallTarget } from '../../src/calls/admission/call-queries.ts'
import { admitCalls, settleCalls } from '../../src/calls/admission/call-queries.ts'
import { admitJoined } from '../../src/calls/admission/joined-queries.ts'
import type { Admission, Limit } from '../../src/calls/admission/state-rules.ts'
import { callTarget } from '../../src/calls/call-target.ts'
import type { Subject } from './history.ts'
import type { Lane } from './lane.ts'
import { rest } from './lane.ts'

const LIMITS = {
  limited: { limit: 40, seconds: 1, window: 'fixed' },
  /** From a thousand on, joined statements give out units for the next calls, too. */
  joined: { limit: 1_000, seconds: 1, window: 'fixed' },
} as const satisfies Record<string, Limit>

export async function admitOn(lane: Lane): Promise<void> {
  while (!lane.isOver()) {
    const which = lane.random() < 0.5 ? 'limited' : 'joined'
    const { subject, target } = targetOf(lane, which)
    const what = lane.random()
    if (what < 0.03) await quiet(lane, subject, target)
    else if (what < 0.5) await admitJoinedOnes(lane, subject, target)
    else await admit(lane, subject, target)
    await rest(lane, 8)
  }
}

function targetOf({ framework, round }: Lane, which: keyof typeof LIMITS): { subject: Subject; target: CallTarget } {
  const id = round.integrations[which]
  const target = callTarget(framework, { id, provider: 'plain' }, LIMITS[which])
  return { subject: { object: `limiter:${id}`, model: 'limiter' }, target }
}

/** A few of a small limit, many of a large one: both are reached before their window ends. */
function callersOf({ random }: Lane, { rules: { limit } }: CallTarget): number {
  return 1 + Math.floor((random() * (limit?.limit ?? 0)) / 12)
}

const windowOf = ({ rules: { limit } }: CallTarget) => ({ limit: limit?.limit, ms: (limit?.seconds ?? 0) * 1_000 })

async function admit(lane: Lane, subject: Subject, target: CallTarget): Promise<void> {
  const { framework, history, client } = lane
  const owners = Array.from({ length: callersOf(lane, target) }, () => lane.name())
  await history.record(
    subject,
    client,
    { kind: 'admit', callers: owners.length, ...windowOf(target) },
    () => admitCalls(framework.db, framework.tables, target, owners),
    (answer) => admissionOutput(answer?.verdicts ?? []),
  )
}

function admissionOutput(verdicts: readonly Admission[]) {
  const refused = verdicts.filter((verdict) => verdict.kind === 'limited' || verdict.kind === 'suppressed')
  const admitted = verdicts.filter(({ kind }) => kind === 'admitted').length
  const reasons = new Set(refused.map(({ kind, retryAfterMs }) => `${kind} ${retryAfterMs}`))
  if (admitted + refused.length !== verdicts.length || reasons.size > 1)
    throw new Error(`one moment gave ${JSON.stringify(verdicts)}`)
  const [first] = refused
  return first === undefined ? { admitted } : { admitted, refusal: first.kind, ms: first.retryAfterMs }
}

async function admitJoinedOnes(lane: Lane, subject: Subject, target: CallTarget): Promise<void> {
  const { framework, history, client } = lane
  const callers = callersOf(lane, target)
  const more = Math.floor(lane.random() * 40)
  // It waits for a locked row for a moment only, and the integration's own statement is asked then.
  const undecidedIfLocked = (error: unknown): null[] => {
    if (error instanceof Error && 'code' in error && error.code === '55P03') return [null]
    throw error
  }
  await history.record(
    subject,
    client,
    { kind: 'admit joined', callers, more, ...windowOf(target) },
    () => admitJoined(framework.callDb, framework.tables, [{ target, callers, more }]).catch(undecidedIfLocked),
    ([joined]) => (joined == null ? {} : { done: true, admitted: callers, given: joined.more, ms: joined.leftMs }),
  )
}

/** The provider asks for quiet. */
async function quiet({ framework, history, client, random, name }: Lane, subject: Subject, target: CallTarget) {
  const quietForMs = 30 + Math.floor(random() * 100)
  const outcome = { generation: null, class: 'throttle', quietForMs, quietUntil: null, row: null } as const
  await history.record(
    subject,
    client,
    { kind: 'quiet', ms: quietForMs },
    () => settleCalls(framework.db, framework.tables, target, [{ owner: name(), ...outcome }]),
    () => ({}),
  )
}
