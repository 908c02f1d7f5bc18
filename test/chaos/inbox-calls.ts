/**
 * Which outbound calls of the handlers have their rows, by two accounts that are not ours: the called provider's own, and the host's
 * notes of what came of each call. What is missing, or double, is explained by a fault of the story, or it is a fault of ours.
 *
 * Rule: docs/behaviour/requests.md, "Settlement".
 */
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { Happened } from './inbox-faults.ts'
import { deathAfter, longestSilence, silencesOf } from './inbox-runs.ts'
import type { InboxStack } from './inbox-stack.ts'

/** Some calls are under way whenever a process dies. */
const ANSWERS_WITHIN_MS = 250
/** A settlement has ended, one way or the other; so has a call whose worker stood still in it. */
const SETTLED_WITHIN_MS = 10_000
const DEADLINE_MS = 30_000
/** A settlement is tried for 9.5 s where Postgres is away; a story's times are a little off. */
const GIVEN_UP_AFTER_SECONDS = 9
/** Where Postgres is there and refuses, as with a full disk, three tries take 3.5 s. */
const REFUSED_AFTER_SECONDS = 3
/** Longer than a worker may stand still: an idle connection is not to end under its next call. */
const KEEP_ALIVE_MS = 300_000
/** What `request()` throws where Postgres is away, so that no call is made: framework/lost-database.ts. */
const DATABASE_LOST = /^(CONNECTION_|CONNECT_TIMEOUT|STATEMENT_TIMEOUT|ECONN|EPIPE|08|53300|57P0)/
/** What it throws where a gate of ours is closed, or a disk is full: no call is made either. */
const NOT_ADMITTED = /^(CircuitOpen|RateLimitExceeded)|No space left on device/

export interface Received {
  readonly member: string
  readonly atMs: number
  /** Null: the provider gave no answer, or none that says it. */
  readonly answer: string | null
  times: number
}

export interface CalledProvider {
  readonly url: string
  /** By the call's id. */
  readonly received: ReadonlyMap<string, Received>
  stop(): Promise<void>
}

/** Answers each `/calls/<id>?member=<worker>` with a text that nobody else knows. */
export async function startCalledProvider(): Promise<CalledProvider> {
  const received = new Map<string, Received>()
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost')
    const id = pathname.replace('/calls/', '')
    const own = { member: searchParams.get('member') ?? '', atMs: Date.now(), answer: randomUUID(), times: 0 }
    const call = received.get(id) ?? own
    received.set(id, call)
    call.times += 1
    await sleep(Math.random() * ANSWERS_WITHIN_MS)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ answer: call.answer }))
  })
  server.keepAliveTimeout = KEEP_ALIVE_MS
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

export interface AccountedCalls {
  /** That reached the provider. */
  readonly made: number
  readonly withRow: number
  /** Without a row: the worker was killed before `request()` had returned. */
  readonly diedBefore: number
  /** Without a row, and the worker says so: Postgres was out of its reach after the call. */
  readonly saidLost: number
  /** With two rows: the answer to a commit was lost. */
  readonly twice: number
  /** That were not made, since Postgres could not be asked, or a gate of ours was closed. */
  readonly refused: number
  /** That were given up: their worker stood still, or the provider gave no answer. */
  readonly unanswered: number
  /** What no fault explains, a line each. Empty: all is well. */
  readonly faults: readonly string[]
}

interface Noted {
  id: string
  member: string
  answer: string | null
  error: string | null
  atMs: number
}

interface Row {
  id: string
  status_code: number | null
  response_data: string | null
  error: string | null
}

export async function accountForCalls(
  { sql, lines }: Pick<InboxStack, 'sql' | 'lines'>,
  { received }: Pick<CalledProvider, 'received'>,
  story: readonly Happened[],
): Promise<AccountedCalls> {
  const rows = new Map<string, Row[]>()
  for (const row of await sql<Row[]>`
    select substring(endpoint from '/calls/(.*)') as id, status_code, response_data, error from integration_requests
    where endpoint like '/calls/%'`)
    rows.set(row.id, [...(rows.get(row.id) ?? []), row])
  const noted = new Map(
    (
      await sql<Noted[]>`
        select id, member, answer, error, (extract(epoch from noted_at) * 1000)::float8 as "atMs" from handler_calls`
    ).map((note) => [note.id, note]),
  )
  const lost = lostOutcomes(lines)
  const tally = { made: received.size, withRow: 0, diedBefore: 0, saidLost: 0, twice: 0, refused: 0, unanswered: 0 }
  const faults: string[] = []

  for (const [id, call] of received) {
    const own = rows.get(id) ?? []
    const note = noted.get(id)
    const say = (what: string): void => void faults.push(`${what}: ${JSON.stringify({ id, call, note, own })}`)
    const endMs = note?.atMs ?? call.atMs + DEADLINE_MS + SETTLED_WITHIN_MS
    const wasCutOff = isSilent(story, call.member, call.atMs, endMs)
    if (call.times > 1) say('sent twice')
    if (own.length > 0) tally.withRow += 1
    if (own.length > 1) {
      tally.twice += 1
      if (!wasCutOff || own.length > 2) say('two rows without a reason')
    }
    for (const { status_code, response_data } of own)
      if (status_code !== null && call.answer !== null && answerOf(response_data) !== call.answer)
        say('a row with an answer that was not given')
    if (note === undefined && !isDead(story, call, endMs)) say('it has not returned, and its worker was not killed')
    if (own.length > 0) continue
    if (note === undefined) tally.diedBefore += 1
    else if (lost.has(`${call.member} ${id}`)) {
      tally.saidLost += 1
      // Shorter absences, such as a death of PgBouncer, cost no row.
      const silentSeconds = longestSilence(story, call.member, call.atMs, endMs)
      if (silentSeconds < GIVEN_UP_AFTER_SECONDS && !wasFull(story, call.atMs, endMs))
        say('no row, and Postgres was not away for that long')
    } else say('NO ROW')
  }

  for (const [id, { member, answer, error, atMs }] of noted) {
    const call = received.get(id)
    const say = (what: string): void =>
      void faults.push(`${what}: ${JSON.stringify({ id, call, member, answer, error })}`)
    if (error === null) {
      if (answer !== call?.answer) say('another answer than the one that was given')
    } else if (call?.answer === null) {
      tally.unanswered += 1
    } else if (call === undefined && (DATABASE_LOST.test(error) || NOT_ADMITTED.test(error))) {
      tally.refused += 1
      if (rows.has(id)) say('a row of a call that was not made')
    } else {
      tally.unanswered += 1
      // The deadline, or a connection's: both are the worker's own clocks.
      const fromMs = (call?.atMs ?? atMs) - DEADLINE_MS
      if (!hasStoodStill(story, member, fromMs, atMs)) say('given up, and its worker did not stand still')
    }
  }

  for (const [id, own] of rows)
    if (!received.has(id) && own.some(({ status_code }) => status_code !== null))
      faults.push(`a row with an answer to a call that was not made: ${JSON.stringify(own)}`)
  return { ...tally, faults }
}

const Answer = z.object({ answer: z.string() })

function answerOf(body: string | null): string | null {
  return body === null ? null : Answer.parse(JSON.parse(body)).answer
}

const Line = z.object({ endpoint: z.string() })

/** `<worker> <call>` of those whose outcome a worker says it could not write. */
function lostOutcomes(lines: readonly string[]): Set<string> {
  const lost = new Set<string>()
  for (const text of lines) {
    if (!text.includes('"request.outcome_lost"')) continue
    const { endpoint } = Line.parse(JSON.parse(text.slice(text.indexOf('{'))))
    lost.add(`${text.slice(0, text.indexOf(' '))} ${endpoint.replace('/calls/', '')}`)
  }
  return lost
}

/** Whether its worker was killed before it can have ended, with all the time that the worker stood still. */
function isDead(story: readonly Happened[], { member, atMs }: Received, endMs: number): boolean {
  const deathMs = deathAfter(story, member, atMs)
  let byMs = endMs
  for (const { fromMs, untilMs } of silencesOf(story, member))
    if (untilMs >= atMs && fromMs <= byMs) byMs += untilMs - fromMs
  return deathMs !== null && deathMs <= byMs
}

/** Whether the worker could not write to Postgres at some moment of this time. */
function isSilent(story: readonly Happened[], member: string, fromMs: number, untilMs: number): boolean {
  return silencesOf(story, member).some((silence) => silence.untilMs >= fromMs && silence.fromMs <= untilMs)
}

function wasFull(story: readonly Happened[], fromMs: number, untilMs: number): boolean {
  const fills = story.filter(({ fault }) => fault.kind === 'fill' && fault.seconds >= REFUSED_AFTER_SECONDS)
  return fills.some((fill) => fill.untilMs >= fromMs && fill.fromMs <= untilMs)
}

function hasStoodStill(story: readonly Happened[], member: string, fromMs: number, untilMs: number): boolean {
  const freezes = story.filter(({ fault }) => fault.kind === 'freeze' && fault.target === member)
  return freezes.some((freeze) => freeze.untilMs >= fromMs && freeze.fromMs <= untilMs)
}
