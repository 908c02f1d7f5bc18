/** What a provider leaves behind: rows, log lines, errors, and nothing else. Rules: docs/behaviour/requests.md, docs/behaviour/egress.md. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { count } from 'drizzle-orm'
import { secretsOf } from '../../core/redaction.ts'
import { partsOf } from '../../integrations.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './check.ts'
import { CODE } from './oauth.ts'
import { shown } from './outcome.ts'
import { answering, cut, cutInBody, HTML, interrupted } from './played-faults.ts'
import type { Thrown } from './round.ts'
import { round } from './round.ts'

export const traceChapter = (): Chapter => ({ contract: 'what it leaves behind', checks: [ROWS, OUTFLOW, SECRETS] })

const ROWS: Check = {
  name: 'makes one request on the wire for each row of integration_requests, and no other',
  async run(bench) {
    const integration = await bench.create()
    const before = { rows: await requestRows(bench), sent: bench.sent.length }
    await round(bench, integration)
    const rows = (await requestRows(bench)) - before.rows
    const sent = bench.sent.slice(before.sent)
    assert.equal(
      rows,
      sent.length,
      `each request must be made inside an integration.request() of its own, by its context.fetch, so that it has a row, keeps the limit and counts for health; ${sent.length} requests left ${rows} rows: ${shown(sent.map(({ method, url }) => `${method} ${url.pathname}`))}`,
    )
  },
}

const OUTFLOW: Check = {
  name: 'calls out by context.fetch only',
  async run(bench) {
    const before = bench.outflow.past.length
    await round(bench, await bench.create())
    const past = [...new Set(bench.outflow.past.slice(before))]
    assert.deepEqual(
      past,
      [],
      `every call must go out by the \`fetch\` of integration.request(), which reaches public addresses only and has the attempt's timeout; past it went ${past.join('; ')}`,
    )
  },
}

const SECRETS: Check = {
  name: 'shows no secret: in no row, log line, printed line or error, on good days and on bad ones',
  async run(bench) {
    const { api } = bench.subject.fixtures
    const integration = await bench.create()
    const thrown = await round(bench, integration)
    for (const day of [
      answering(401),
      answering(404),
      answering(422, '{"error":"invalid_request"}'),
      answering(500),
      cut,
      HTML,
      cutInBody(api),
      interrupted(api, 2, answering(500)),
    ])
      thrown.push(
        ...(await bench.answeredBy(day, () => bench.withoutRetries(async () => round(bench, await bench.create())))),
      )
    const secrets = namedSecrets(bench)
    const found = (await places(bench, thrown)).flatMap(({ what, text }) =>
      secrets.filter(({ forms }) => forms.some((form) => text.includes(form))).map(({ name }) => `${name} in ${what}`),
    )
    const shownAt = [...new Set(found)]
    assert.deepEqual(shownAt, [], `a secret must not be shown; there is ${shownAt.join('; ')}`)
  },
}

interface Secret {
  /** Where the fixtures have it. */
  readonly name: string
  /** As it is, and as a URL, a header or a JSON text would hold it. */
  readonly forms: readonly string[]
}

/** Times are no secrets, nor is what the metadata shows anyway. */
function namedSecrets({ subject }: Bench): Secret[] {
  const { credentials, secrets = [], webhook, metadata } = subject.fixtures
  const known = { credentials, secrets, webhook: [webhook?.secret, webhook?.otherSecret], code: CODE }
  const open = inspect(metadata, { depth: null })
  const named: Secret[] = []
  const visit = (name: string, value: unknown): void => {
    if (typeof value === 'string') {
      const isSecret = Number.isNaN(Date.parse(value)) && !open.includes(value)
      if (isSecret && secretsOf([value]).length > 0) named.push({ name, forms: secretsOf([value]) })
    } else if (typeof value === 'object' && value !== null)
      for (const [key, inner] of Object.entries(value)) visit(`${name}.${key}`, inner)
  }
  for (const [name, value] of Object.entries(known)) visit(name, value)
  return named
}

interface Place {
  readonly what: string
  readonly text: string
}

async function places({ kit, outflow }: Bench, thrown: readonly Thrown[]): Promise<Place[]> {
  const tables = await kit.sql<{ name: string }[]>`
    select quote_ident(table_schema) || '.' || quote_ident(table_name) as name from information_schema.tables
    where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')`
  const rows: Place[] = []
  for (const { name } of tables)
    for (const { row } of await kit.sql.unsafe<{ row: string }[]>(`select to_jsonb(t)::text as row from ${name} t`))
      rows.push({ what: `a row of ${name}`, text: unescaped(row) })
  return [
    ...rows,
    ...kit.logs.map(({ fields, message }) => ({ what: 'a log line', text: `${message} ${wholeText(fields)}` })),
    ...outflow.printed.map((text) => ({ what: 'a line on the console', text })),
    ...thrown.map(({ by, error }) => ({ what: `an error of ${by}`, text: wholeText(error) })),
  ]
}

/** A text inside a JSON text is escaped: both readings are looked at. */
const unescaped = (json: string) => `${json} ${json.replaceAll('\\"', '"').replaceAll('\\\\', '\\')}`

/** All that a console, a logger or a serializer would show of it: message, stack, causes, fields. */
function wholeText(value: unknown): string {
  const printed = inspect(value, { depth: null, maxArrayLength: null, maxStringLength: null, getters: true })
  try {
    return `${printed} ${JSON.stringify(value)}`
  } catch {
    // No JSON: then nobody shows it as such.
    return printed
  }
}

async function requestRows({ kit }: Bench): Promise<number> {
  const { db, tables } = partsOf(kit.integrations).framework
  const [row] = await db.select({ rows: count() }).from(tables.requests)
  return row?.rows ?? 0
}
