/** The promises about providers: calls, budgets, keyed writes, tokens and subscriptions. */
import type { AccountedCalls } from '../inbox-calls.ts'
import { accountForCalls } from '../inbox-calls.ts'
import { budgetOverruns } from './budget.ts'
import { subscriptionFaults } from './quiet.ts'
import type { Evidence, Verdict } from './verdict.ts'
import { count, sum } from './verdict.ts'
import { BUDGET } from './world.ts'

export async function calls({ stack, story }: Evidence): Promise<Verdict> {
  const { faults, ...accounted }: AccountedCalls = await accountForCalls(stack, stack.outside, story)
  const { made, withRow, diedBefore, saidLost } = accounted
  return {
    promise: 'every outbound call has its row, but what a kill or a lost Postgres cost',
    counts: `${count(made)} arrived, ${count(withRow)} rows, ${diedBefore} died with their worker, ${saidLost} reported lost`,
    broken: faults,
  }
}

export function budget({ stack, story }: Evidence): Verdict {
  const { callsAtMs } = stack.outside
  const { most, excused, overruns } = budgetOverruns(callsAtMs, story)
  return {
    promise: `a shared budget holds by the provider's clock`,
    counts: `${count(callsAtMs.length)} calls, at most ${most} in ${BUDGET.seconds} s of ${BUDGET.calls} allowed${excused === 0 ? '' : `, ${excused} late after a stop`}`,
    broken: overruns,
  }
}

export async function writes({ stack: { sql, outside } }: Evidence): Promise<Verdict> {
  const noted = await sql<{ key: string; state: string; answer: string | null }[]>`select * from keyed_writes`
  const spent = new Set(
    (await sql<{ key: string }[]>`select key from integration_idempotency_keys`).map(({ key }) => key),
  )
  const broken: string[] = []
  for (const [key, { effects }] of outside.writes) {
    if (effects > 1) broken.push(`${key}: ${effects} effects`)
    if (!spent.has(key)) broken.push(`${key}: an effect, and the key is free again`)
  }
  for (const { key, state, answer } of noted)
    if (state === 'answered' && outside.writes.get(key)?.answer !== answer)
      broken.push(`${key}: reported as answered, and the provider does not know it so`)
    else if (state === 'given up' && outside.writes.has(key)) broken.push(`${key}: an effect that was not reported`)
  const of = (state: string): number => noted.filter((note) => note.state === state).length
  return {
    promise: 'a write with a key takes effect once at most, and what is uncertain is said',
    counts: `${count(noted.length)} keys, ${count(outside.writes.size)} effects, ${of('uncertain')} uncertain, ${of('given up')} without effect`,
    broken,
  }
}

export function refreshes({ stack: { outside } }: Evidence): Verdict {
  const all = [...outside.grants]
  return {
    promise: 'one refresh at a time for each integration',
    counts: `${count(sum(all.map(([, { refreshes }]) => refreshes)))} refreshes, at most ${Math.max(...all.map(([, { mostUnderWay }]) => mostUnderWay))} at once`,
    broken: all
      .filter(([, { mostUnderWay }]) => mostUnderWay > 1)
      .map(([id, { mostUnderWay }]) => `integration ${id}: ${mostUnderWay} at once`),
  }
}

/** No older refresh token came back, and the token that is stored is the last one that was given out. */
export function tokens({ stack: { outside }, quiet }: Evidence): Verdict {
  const broken = [...outside.grants].flatMap(([id, { refused, given }]) => [
    ...refused.map((token) => `integration ${id}: ${token} came back after a later one`),
    ...(quiet.tokens.get(id) === `access-${id}-${given}`
      ? []
      : [`integration ${id}: ${quiet.tokens.get(id)} is stored, number ${given} was given last`]),
  ])
  return {
    promise: 'no refresh token is lost',
    counts: `${quiet.tokens.size} integrations refreshed once more`,
    broken,
  }
}

export function subscriptions({ stack, operators }: Evidence): Verdict {
  const wanted = [...operators.wanted.values()].filter(Boolean).length
  return {
    promise: 'subscriptions are exact at the end',
    counts: `${wanted} wanted, ${stack.subscriptions.subscriptions.size} at the provider, ${count(stack.subscriptions.requests.length)} requests`,
    broken: subscriptionFaults(stack, operators),
  }
}
