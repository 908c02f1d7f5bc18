/** What a provider leaves behind: rows, log lines, errors, and nothing else. Rules: docs/behaviour/requests.md, docs/behaviour/egress.md. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { count } from 'drizzle-orm'
import { partsOf } from '../../../create-integrations.ts'
import { MIN_SECRET_LENGTH, secretsOf } from '../../../framework/redaction.ts'
import type { Integration } from '../../../providers/integration.ts'
import type { PlayedApi } from '../../played-transport.ts'
import type { Attempt } from '../attempts.ts'
import type { Bench } from '../bench.ts'
import type { Chapter, Check, Subject } from '../conformance-check.ts'
import { CODE, isIsoTime } from '../oauth.ts'
import { answering, cut, cutInBody, HTML, interrupted } from '../played-faults.ts'
import type { Thrown } from './round.ts'
import { round } from './round.ts'
import { apartChecks } from './two-integrations.ts'

/** @param api of the fixtures, which plays on a good day */
type Day = readonly [when: string, play: (api: PlayedApi) => PlayedApi]

const BAD_DAYS: readonly Day[] = [
  ['where it is answered by a 401', () => answering(401)],
  ['where it is answered by a 404', () => answering(404)],
  ['where it is answered by a 422', () => answering(422, '{"error":"invalid_request"}')],
  ['where it is answered by a 500', () => answering(500)],
  ['where connections break', () => cut],
  ['where it is answered in HTML', () => HTML],
  ['where answers break off', cutInBody],
  ['where the second answer is a 500', (api) => interrupted(api, 2, answering(500))],
]

export function traceChapter(subject: Subject): Chapter {
  const { checks, ...rest } = apartChecks(subject)
  return {
    contract: 'what it leaves behind',
    checks: [ROWS, OUTFLOW, LENGTHS, ...checks, ON_GOOD_DAYS, ...BAD_DAYS.map(onBadDay)],
    ...rest,
  }
}

/** What one round on a good day left: it is made once, and judged by several checks. */
interface Trace {
  readonly integration: Integration
  readonly thrown: readonly Thrown[]
  readonly rows: number
  readonly attempts: readonly Attempt[]
  readonly strays: readonly string[]
  readonly past: readonly string[]
}

const traces = new WeakMap<Bench, Promise<Trace>>()

function traceOf(bench: Bench): Promise<Trace> {
  const trace = traces.get(bench) ?? traced(bench)
  traces.set(bench, trace)
  return trace
}

async function traced(bench: Bench): Promise<Trace> {
  const integration = await bench.create()
  const { attempts, outflow } = bench
  const before = {
    rows: await requestRows(bench),
    attempts: attempts.all.length,
    strays: attempts.strays.length,
    past: outflow.past.length,
  }
  const thrown = await round(bench, integration)
  return {
    integration,
    thrown,
    rows: (await requestRows(bench)) - before.rows,
    attempts: attempts.all.slice(before.attempts),
    strays: attempts.strays.slice(before.strays),
    past: outflow.past.slice(before.past),
  }
}

const ROWS: Check = {
  name: 'makes one request on the wire for each row of integration_requests, and no other',
  async run(bench) {
    const { rows, attempts, strays } = await traceOf(bench)
    const rule =
      'each request must be made inside an integration.request() of its own, by its context.fetch, so that it has a row, keeps the limit and counts for health'
    const wrong = [
      ...attempts.filter(({ calls }) => calls !== 1).map(({ what, calls }) => `${what} called out ${calls} times`),
      ...strays.map((url) => `${url} was called outside of any`),
    ]
    assert.deepEqual(wrong, [], `${rule}; ${wrong.join('; ')}`)
    const made = attempts.map(({ what }) => what).join(', ')
    assert.equal(rows, attempts.length, `${rule}; ${attempts.length} requests left ${rows} rows: ${made}`)
  },
}

const OUTFLOW: Check = {
  name: 'calls out by context.fetch only',
  async run(bench) {
    const past = [...new Set((await traceOf(bench)).past)]
    assert.deepEqual(
      past,
      [],
      `every call must go out by the \`fetch\` of integration.request(), which reaches public addresses only and has the attempt's timeout; past it went ${past.join('; ')}`,
    )
  },
}

const LENGTHS: Check = {
  name: `has fixtures whose secrets can be told from other words: ${MIN_SECRET_LENGTH} characters or more`,
  async run(bench) {
    const short = heldSecrets(bench)
      .filter(({ value }) => value.length < MIN_SECRET_LENGTH)
      .filter(({ key, value }) => key === null || canBeLonger(bench, key, value))
      .map(({ name }) => name)
    assert.deepEqual(
      short,
      [],
      `nobody can say whether a secret of fewer than ${MIN_SECRET_LENGTH} characters is shown somewhere: it could be part of any word, and the framework redacts none so short. Make up longer ones for ${short.join(', ')}`,
    )
  },
}

/** The schema may leave no choice, such as one of two words. */
function canBeLonger({ provider, subject }: Bench, key: string, value: string): boolean {
  const longer = { ...subject.fixtures.credentials, [key]: `${value}-and-longer` }
  return provider.credentialsSchema?.safeParse(longer).success !== false
}

const inNone = (when: string) => `shows no secret ${when}: in no row, log line, printed line or error`

const ON_GOOD_DAYS: Check = {
  name: inNone('on a good day'),
  async run(bench) {
    const { thrown } = await traceOf(bench)
    // Of all checks so far.
    expectNoSecret(bench, [
      ...(await rowsOf(bench, null)),
      ...linesSince(bench, { logs: 0, printed: 0 }),
      ...errors(thrown),
    ])
  },
}

function onBadDay([when, play]: Day): Check {
  return {
    name: inNone(when),
    async run(bench) {
      const before = { logs: bench.kit.logs.length, printed: bench.outflow.printed.length }
      const integration = await bench.create()
      const thrown = await bench.answeredBy(play(bench.subject.fixtures.api), () =>
        bench.withoutRetries(() => round(bench, integration)),
      )
      expectNoSecret(bench, [...(await rowsOf(bench, integration)), ...linesSince(bench, before), ...errors(thrown)])
    },
  }
}

function expectNoSecret(bench: Bench, places: readonly Place[]): void {
  const secrets = namedSecrets(bench)
  const found = places.flatMap(({ what, text }) =>
    secrets.filter(({ forms }) => forms.some((form) => text.includes(form))).map(({ name }) => `${name} in ${what}`),
  )
  const shownAt = [...new Set(found)]
  assert.deepEqual(shownAt, [], `a secret must not be shown; there is ${shownAt.join('; ')}`)
}

/** A secret as the fixtures hold it. */
interface HeldSecret {
  /** Where. */
  readonly name: string
  readonly value: string
  /** Of the credentials that hold it; null: another fixture does. */
  readonly key: string | null
}

interface Secret {
  /** Where the fixtures have it. */
  readonly name: string
  /** As it is, and as a URL, a header or a JSON text would hold it. */
  readonly forms: readonly string[]
}

function namedSecrets(bench: Bench): Secret[] {
  return heldSecrets(bench)
    .map(({ name, value }) => ({ name, forms: secretsOf([value]) }))
    .filter(({ forms }) => forms.length > 0)
}

/** Times are no secrets, nor is what the metadata shows anyway. */
function heldSecrets({ subject }: Bench): HeldSecret[] {
  const { credentials, secrets = [], webhook, metadata } = subject.fixtures
  const open = inspect(metadata, { depth: null })
  const held: HeldSecret[] = []
  const visit = (name: string, key: string | null, value: unknown): void => {
    if (typeof value === 'string') {
      if (value !== '' && !isIsoTime(value) && !open.includes(value)) held.push({ name, value, key })
    } else if (typeof value === 'object' && value !== null)
      for (const [inner, each] of Object.entries(value)) visit(`${name}.${inner}`, key, each)
  }
  for (const [key, value] of Object.entries(credentials)) visit(`credentials.${key}`, key, value)
  const others = { secrets, webhook: [webhook?.secret, webhook?.otherSecret], code: CODE }
  for (const [name, value] of Object.entries(others)) visit(name, null, value)
  return held
}

interface Place {
  readonly what: string
  readonly text: string
}

/** @param integration null: of all; else of the tables that name an integration only what is this one's */
async function rowsOf({ kit }: Bench, integration: Integration | null): Promise<Place[]> {
  const tables = await kit.sql<{ name: string; isOfOne: boolean }[]>`
    select quote_ident(t.table_schema) || '.' || quote_ident(t.table_name) as name,
      exists (
        select from information_schema.columns c
        where c.table_schema = t.table_schema and c.table_name = t.table_name and c.column_name = 'integration_id'
      ) as "isOfOne"
    from information_schema.tables t
    where t.table_type = 'BASE TABLE' and t.table_schema not in ('pg_catalog', 'information_schema')`
  const each = tables.map(
    ({ name, isOfOne }) =>
      `select '${name.replaceAll("'", "''")}' as name, to_jsonb(t)::text as row from ${name} t${isOfOne && integration !== null ? ` where t.integration_id = ${integration.id}` : ''}`,
  )
  const rows = await kit.sql.unsafe<{ name: string; row: string }[]>(each.join(' union all '))
  return rows.map(({ name, row }) => ({ what: `a row of ${name}`, text: unescaped(row) }))
}

function linesSince({ kit, outflow }: Bench, { logs, printed }: { logs: number; printed: number }): Place[] {
  return [
    ...kit.logs
      .slice(logs)
      .map(({ fields, message }) => ({ what: 'a log line', text: `${message} ${wholeText(fields)}` })),
    ...outflow.printed.slice(printed).map((text) => ({ what: 'a line on the console', text })),
  ]
}

const errors = (thrown: readonly Thrown[]): Place[] =>
  thrown.map(({ by, error }) => ({ what: `an error of ${by}`, text: wholeText(error) }))

/** A text inside a JSON text is escaped: both readings are looked at. */
const unescaped = (json: string) => `${json} ${json.replaceAll('\\"', '"').replaceAll('\\\\', '\\')}`

/** All that a console, a logger or a serializer would show of it: message, stack, causes, fields. */
function wholeText(value: unknown): string {
  const printed = inspect(value, { depth: null, maxArrayLength: null, maxStringLength: null, getters: true })
  try {
    return `${printed} ${JSON.stringify(value)}`
  } catch {
    // No JSON: then it is not shown as such.
    return printed
  }
}

async function requestRows({ kit }: Bench): Promise<number> {
  const { db, tables } = partsOf(kit.integrations).framework
  const [row] = await db.select({ rows: count() }).from(tables.requests)
  return row?.rows ?? 0
}
