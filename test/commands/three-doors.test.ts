/** The three doors to one planted command: what each takes, refuses, answers and writes down. */
import { Hono } from 'hono'
import { beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Limits, Scope } from '../../src/access/rules.ts'
import { commandRoutes, operations } from '../../src/api/command-routes.ts'
import { openApi, operationId } from '../../src/api/openapi.ts'
import { problemHandler } from '../../src/api/problem.ts'
import { createProgram, runInFrame } from '../../src/commands/cli/program.ts'
import { runInWorker } from '../../src/commands/cli/worker-command.ts'
import { command, hostlessCommand, route } from '../../src/commands/command.ts'
import {
  choice,
  flag,
  forTerminals,
  id,
  instant,
  json,
  many,
  optional,
  owner,
  period,
  provider,
  text,
  whole,
  withDefault,
  yesOrNo,
} from '../../src/commands/fields.ts'
import { listing } from '../../src/commands/listing.ts'
import { Refused } from '../../src/commands/refused.ts'
import type { Integrations } from '../../src/create-integrations.ts'

const touch = command({
  name: 'touch',
  topic: 'Integrations',
  summary: 'Touches an integration.',
  examples: ['integrations touch 7'],
  places: ['id', 'others'],
  fields: {
    id: id('of the integration'),
    others: optional(many(id('of others'))),
    howOften: withDefault(whole('so often', { max: 5 }), 1),
    kind: optional(choice('which', ['soft', 'hard'])),
    until: optional(instant('when it ends')),
    word: optional(text('to leave there')),
    value: optional(json('to leave there')),
    isDry: flag('only look'),
    watch: forTerminals(flag('show it')),
  },
  reach: 'integration',
  output: z.object({ id: z.int() }),
  routes: [
    {
      method: 'post',
      path: '/integrations/:id/touch',
      status: 202,
      location: ({ id: of }) => `/integrations/${of}`,
    },
    route({
      method: 'put',
      path: '/integrations/:id/touch',
      fields: { id: id('of the integration') },
      run: async ({ note }, { id: of }) => ({ id: of, noted: await note(of, 'put') }),
    }),
    route({
      method: 'get',
      path: '/integrations/:id/touch',
      fields: { id: id('of the integration'), isDry: yesOrNo('only look') },
      version: ['touched'],
      run: async (_, { id: of, isDry }) => ({ id: of, looked: isDry ?? null, touched: notes.length }),
    }),
  ],
  check({ kind, isDry }) {
    if (kind === 'hard' && isDry) throw new Refused('usage', 'hard and dry do not go together.', 'isDry')
  },
  confirm: async (_, { kind }) => (kind === 'hard' ? 'Touch it hard?' : null),
  async run({ note, warn, by, from }, input) {
    await note(input.id, 'touch')
    warn('It was soft.')
    return { by, from, ...input }
  },
  show: ({ id: of }) => `Touched ${of}.`,
  hasFailed: ({ word }) => word === 'fails',
})

const touches = listing({
  name: 'list-touches',
  topic: 'Integrations',
  summary: 'Lists touches.',
  examples: ['integrations list-touches'],
  fields: {
    integration: optional(id('only of this integration')),
    provider: optional(provider('only of this provider')),
    owner: optional(owner('only of this owner')),
    ...period('touched'),
  },
  path: '/touches',
  row: z.object({ id: z.int(), touched_by: z.string() }),
  shows: { ID: 'id', By: 'touched_by' },
  none: 'No touches.',
  async *list(_, { limit, after = 6, ...filter }) {
    asked = filter
    for (let each = after - 1; each > 0 && each > after - 1 - limit; each -= 1) yield { id: each, touchedBy: 'me' }
  },
})

const all = command({
  name: 'all',
  topic: 'Trouble',
  summary: 'About all.',
  examples: ['integrations all'],
  fields: {},
  routes: [{ method: 'get', path: '/all' }],
  run: async () => ({ ok: true }),
})

const alone = hostlessCommand({
  name: 'alone',
  topic: 'Development',
  summary: 'Needs nobody.',
  examples: ['integrations alone'],
  workflow: { none: 'it is for a terminal' },
  fields: {},
  runWithoutHost: async ({ by }) => ({ by }),
  show: ({ by }) => by,
})

const TABLE = [touch, touches, all, alone]

let asked: unknown
let notes: unknown[]
let seen: unknown[]
let integrations: Integrations
beforeEach(() => {
  asked = undefined
  notes = []
  seen = []
  const quiet = () => {}
  integrations = {
    ready: async () => {},
    close: async () => {},
    get: async () => ({}),
    config: { operator: { prefix: 'operator' }, worker: { command_environment: [] } },
    admin: {
      access: { baseUrl: 'https://example.test/base' },
      logger: { debug: quiet, info: quiet, warn: quiet, error: quiet },
      operator: {
        note: async (of: number, act: object) => void notes.push({ id: of, ...act }),
        maySee: async (_: unknown, kind: string, of: number) => {
          seen.push([kind, of])
          return of === 7
        },
        inTurn: async (_: string, change: () => unknown) => change(),
      },
    },
  } as unknown as Integrations
})

async function http(
  method: string,
  path: string,
  { body, limits, headers = {} }: { body?: unknown; limits?: Limits; headers?: Record<string, string> } = {},
) {
  const principal = { name: 'ops', scopes: ['operate'] as Scope[], via: 'token' as const, ...(limits && { limits }) }
  const app = new Hono<{ Variables: { caller: unknown } }>().basePath('/operator')
  app.onError(problemHandler(integrations))
  app.use('*', (context, next) => {
    context.set('caller', { principal, session: null })
    return next()
  })
  app.route('/api/v1', commandRoutes(integrations, operations(TABLE)) as never)
  const response = await app.request(`/operator/api/v1${path}`, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json().catch(() => null)) as Record<string, unknown>,
  }
}

async function line(...words: string[]) {
  let out = ''
  let err = ''
  const terminal = {
    out: (said: string) => {
      out += said
    },
    err: (said: string) => {
      err += said
    },
    isInteractive: false,
    columns: () => 80,
    prompts: {} as never,
    sources: { environment: {}, file: () => '', stdin: async () => '' },
  }
  const options = {
    load: async () => integrations,
    terminal,
    by: 'cli:me',
    from: 'here',
    json: words.includes('--json'),
  }
  const exitCode = await runInFrame(options, (frame) =>
    createProgram(frame, terminal, TABLE).parseAsync(words, { from: 'user' }),
  )
  return { exitCode, out, err }
}

const work = (name: string, input: unknown) =>
  runInWorker(integrations, { command: name, input, by: 'workflow:w', signal: new AbortController().signal }, TABLE)

it('a filter by time takes a length of time back, through each door alike', async () => {
  const since = async (act: () => Promise<unknown>) => {
    await act()
    return Date.now() - (asked as { since: Date }).since.getTime()
  }
  for (const act of [
    () => line('list-touches', '--since', '90m'),
    () => work('list-touches', { since: '90m' }),
    () => http('GET', '/touches?since=90m'),
  ]) {
    const ago = await since(act)
    expect(ago).toBeGreaterThanOrEqual(90 * 60_000)
    expect(ago).toBeLessThan(91 * 60_000)
  }
  expect(await http('GET', '/touches?since=1w')).toMatchObject({ status: 422 })
})

it('a period without a moment is asked for, through each door alike', async () => {
  const at = '2031-06-01T12:00:00Z'
  for (const act of [
    () => line('list-touches', '--since', at, '--until', at),
    () => work('list-touches', { since: at, until: at }),
    () => http('GET', `/touches?since=${at}&until=${at}`),
  ]) {
    asked = null
    await act()
    expect(asked).toMatchObject({ since: new Date(at), until: new Date(at) })
  }
})

describe('the command line', () => {
  it('gives the command its fields with their defaults, prints what it shows, and knows who asks', async () => {
    expect(await line('touch', '7')).toEqual({ exitCode: 0, out: 'Touched 7.\n', err: 'It was soft.\n' })
    expect(notes).toEqual([{ id: 7, token: 'cli:me', action: 'touch', target: 'integration:7', from: 'here' }])
  })

  it('reads each kind of a field', async () => {
    const { out } = await line(
      ...['touch', '7', '8', '9', '8', '--how-often', '5', '--kind', 'soft', '--until', '2031-06-01T12:00:00+02:00'],
      ...['--word', 'w', '--value', '{"a":[null]}', '--is-dry', '--watch', '--json'],
    )
    expect(JSON.parse(out)).toEqual({
      ...{ by: 'cli:me', from: 'here', id: 7, others: [8, 9], howOften: 5, kind: 'soft' },
      ...{ until: '2031-06-01T10:00:00.000Z', word: 'w', value: { json: { a: [null] } }, isDry: true, watch: true },
    })
  })

  it.each([
    [['touch'], /missing required argument 'id'/],
    [['touch', '0'], /an id is a positive whole number of at most 9007199254740991, "0" was given/],
    [['touch', '7', '--how-often', '6'], /a whole number from 1 to 5 is allowed, "6" was given/],
    [['touch', '7', '--kind', 'odd'], /Allowed choices are soft, hard/],
    [['touch', '7', '--until', 'now'], /a moment in ISO 8601 .*, "now" was given/],
    [['touch', '7', '--value', '{'], /JSON is allowed/],
    [['touch', '7', '--value', '12345678901234567890'], /JSON is allowed/],
    [['touch', '7', '--strange'], /unknown option '--strange'/],
    [['touch', '7', '--kind', 'hard', '--is-dry'], /hard and dry do not go together/],
    [['list-touches', '--since', 'now'], /or a length of time back such as 90m, 24h or 7d, "now" was given/],
    [['list-touches', '--since', '24h', '--until', '7d'], /not before since/],
    [['list-touches', '--since', '2031-06-01T12:00:00Z', '--until', '2031-06-01T11:59:59Z'], /not before since/],
  ])('refuses %j before the host is loaded', async (words, message) => {
    integrations = new Proxy({} as Integrations, { get: () => expect.unreachable('the host is not asked') })
    const { exitCode, err } = await line(...words)
    expect({ exitCode, err }).toEqual({ exitCode: 1, err: expect.stringMatching(message) })
  })

  it('asks before what needs it, unless it was told yes', async () => {
    expect(await line('touch', '7', '--kind', 'hard')).toMatchObject({
      exitCode: 1,
      err: 'Touch it hard? No one is here to answer; give --yes to go on.\n',
    })
    expect(notes).toEqual([])
    expect(await line('touch', '7', '--kind', 'hard', '--yes')).toMatchObject({ exitCode: 0 })
  })

  it('ends with 1 when a part failed, and prints its document', async () => {
    expect(await line('touch', '7', '--word', 'fails')).toMatchObject({ exitCode: 1, out: 'Touched 7.\n' })
  })

  it('lists a page, and says that there are more', async () => {
    expect(await line('list-touches', '--limit', '2')).toEqual({
      exitCode: 0,
      out: 'ID  By\n 5  me\n 4  me\n',
      err: 'There are more than 2; --limit shows more, --after 4 the next ones.\n',
    })
    expect(await line('list-touches', '--after', '1')).toMatchObject({ out: 'No touches.\n', err: '' })
  })

  it('names the filters by time, and what they take', async () => {
    expect((await line('list-touches', '--help')).out.replaceAll(/\s+/g, ' ')).toContain(
      '--since <when> only those touched then or later (an instant, or how long ago: 90m, 24h, 7d)',
    )
  })

  it('runs without a host what needs none', async () => {
    expect(await line('alone')).toEqual({ exitCode: 0, out: 'cli:me\n', err: '' })
  })

  it('has each in the help, under its topic', async () => {
    const { out } = await line('--help')
    expect(out).toMatch(/Integrations:\n {2}touch <id> \[others\] +Touches an integration\.\n {2}list-touches/)
    expect((await line('touch', '--help')).out).toMatch(
      /--how-often <n> +so often; default 1\n[\s\S]*\$ integrations touch 7/,
    )
  })
})

describe('a workflow', () => {
  it('gives the same, and its document is the result', async () => {
    expect(await work('touch', { id: '7', others: 8, howOften: 5, isDry: true })).toEqual({
      exitCode: 0,
      document: {
        ...{ by: 'workflow:w', from: 'workflow:w', id: 7, others: [8], howOften: 5, isDry: true },
        watch: false,
      },
      notes: ['It was soft.'],
    })
    expect(notes).toMatchObject([{ token: 'workflow:w', from: 'workflow:w' }])
  })

  it.each([
    [{}, 'id: an id is a positive whole number of at most 9007199254740991, nothing was given.'],
    [
      { id: 7, strange: 1 },
      'touch takes id, others, howOften, kind, until, word, value, isDry, yes; "strange" was given.',
    ],
    [
      { id: 7, watch: true },
      `"watch" is for terminals: a workflow's result is the document of --json, and no one watches it.`,
    ],
    [
      { id: 7, others: ['x'] },
      'others.0: an id is a positive whole number of at most 9007199254740991, a list or an object was given.',
    ],
    [[], 'The input is one JSON object, such as {"id":7}; a list was given.'],
    [{ id: 7, kind: 'hard' }, 'Touch it hard? No one is here to answer; give --yes to go on.'],
  ])('refuses %j', async (input, message) => {
    const { exitCode, document } = await work('touch', input)
    expect({ exitCode, document }).toMatchObject({ exitCode: 1, document: { error: { message } } })
    expect(notes).toEqual([])
  })

  it('lists rows', async () => {
    const { document } = await work('list-touches', { limit: 1, owner: 'team:7' })
    expect({ document, asked }).toMatchObject({
      document: [{ id: 5, touched_by: 'me' }],
      asked: { owner: { type: 'team', id: 7 } },
    })
  })
})

describe('HTTP', () => {
  it('answers with the document, and says where to look at what it began', async () => {
    const { status, headers, body } = await http('POST', '/integrations/7/touch', {
      body: { how_often: 2, others: [8] },
    })
    expect({ status, body, location: headers.get('location') }).toEqual({
      status: 202,
      body: { by: 'ops', id: 7, others: [8], howOften: 2, isDry: false },
      location: '/base/operator/api/v1/integrations/7',
    })
    expect(notes).toMatchObject([{ id: 7, token: 'ops', action: 'touch' }])
    expect(await http('GET', '/integrations/7/touch?is_dry=false')).toMatchObject({ body: { id: 7, looked: false } })
    // Over HTTP nobody is asked.
    expect(await http('POST', '/integrations/7/touch', { body: { kind: 'hard' } })).toMatchObject({ status: 202 })
  })

  it.each<[string, string, unknown, number, unknown]>([
    ['POST', '/integrations/x/touch', undefined, 404, { code: 'integration_not_found' }],
    [
      'POST',
      '/integrations/7/touch',
      { how_often: '2' },
      422,
      { fields: [{ path: 'how_often', message: 'a whole number from 1 to 5 is allowed' }] },
    ],
    [
      'POST',
      '/integrations/7/touch',
      { howOften: 2 },
      422,
      { fields: [{ path: 'howOften', message: expect.stringContaining('is not known here') }] },
    ],
    [
      'POST',
      '/integrations/7/touch',
      { id: 8 },
      422,
      { fields: [{ path: 'id', message: expect.stringContaining('is not known here') }] },
    ],
    [
      'POST',
      '/integrations/7/touch',
      { watch: true },
      422,
      { fields: [{ path: 'watch', message: expect.stringContaining('is not known here') }] },
    ],
    [
      'POST',
      '/integrations/7/touch',
      { kind: 'hard', is_dry: true },
      422,
      { fields: [{ path: 'is_dry', message: 'hard and dry do not go together.' }] },
    ],
    ['POST', '/integrations/7/touch', [1], 422, { fields: [{ path: '', message: 'a JSON object is allowed' }] }],
    [
      'POST',
      '/integrations/7/touch?how_often=2',
      { how_often: 3 },
      422,
      { fields: [{ path: 'how_often', message: expect.stringContaining('is not known here') }] },
    ],
    [
      'POST',
      '/integrations/7/touch?how_often=2',
      {},
      422,
      { fields: [{ path: 'how_often', message: expect.stringContaining('is not known here') }] },
    ],
    [
      'GET',
      '/integrations/7/touch?is_dry=maybe',
      undefined,
      422,
      { fields: [{ path: 'is_dry', message: 'true or false is allowed' }] },
    ],
    [
      'GET',
      '/integrations/7/touch?is_dry=true&is_dry=true',
      undefined,
      422,
      { fields: [{ path: 'is_dry', message: 'is allowed once' }] },
    ],
    [
      'GET',
      '/touches?limit=201',
      undefined,
      422,
      { fields: [{ path: 'limit', message: 'a whole number from 1 to 200 is allowed' }] },
    ],
    [
      'GET',
      '/touches?since=2031-06-01T12:00:00Z&until=2031-06-01T11:59:59Z',
      undefined,
      422,
      { fields: [{ path: 'until' }] },
    ],
  ])('refuses %s %s %j', async (method, path, body, status, problem) => {
    const answer = await http(method, path, { body })
    expect(answer).toMatchObject({ status, body: problem })
    expect(notes).toEqual([])
  })

  it('links to the next page', async () => {
    const { body, headers } = await http('GET', '/touches?limit=2&provider=acme')
    expect(body).toEqual({
      data: [
        { id: 5, touched_by: 'me' },
        { id: 4, touched_by: 'me' },
      ],
      next: 4,
    })
    expect(headers.get('link')).toBe('</base/operator/api/v1/touches?limit=2&provider=acme&after=4>; rel="next"')
    const last = await http('GET', '/touches?after=2')
    expect([last.body.next, last.headers.get('link')]).toEqual([null, null])
  })

  it('overwrites nothing that was changed after it was looked at, when it is asked so', async () => {
    const path = '/integrations/7/touch'
    const etag = (await http('GET', path)).headers.get('etag') as string
    expect(etag).toMatch(/^"[0-9a-f]{32}"$/)
    expect(await http('PUT', path, { headers: { 'if-match': `"other", ${etag}` } })).toMatchObject({ status: 200 })
    const late = await http('PUT', path, { headers: { 'if-match': etag } })
    expect(late).toMatchObject({ status: 412, body: { code: 'changed_meanwhile' } })
    expect(notes).toHaveLength(1)
    expect(await http('PUT', path, { headers: { 'if-match': '*' } })).toMatchObject({ status: 200 })
    expect(await http('PUT', path)).toMatchObject({ status: 200 })
  })

  it('keeps a limited caller to what it may see', async () => {
    const limits = { provider: 'acme', owner: { type: 'team', id: 7 } }
    expect(await http('GET', '/all', { limits })).toMatchObject({ status: 403, body: { code: 'insufficient_scope' } })
    expect(await http('GET', '/integrations/8/touch', { limits })).toMatchObject({
      status: 404,
      body: { code: 'integration_not_found' },
    })
    expect(await http('GET', '/integrations/7/touch', { limits })).toMatchObject({ status: 200 })
    expect(await http('GET', '/touches?integration=8', { limits })).toMatchObject({ status: 404 })
    expect(await http('GET', '/touches?owner=team:8', { limits })).toMatchObject({ status: 403 })
    expect(await http('GET', '/touches', { limits })).toMatchObject({ status: 200 })
    expect(asked).toMatchObject(limits)
    expect(seen).toEqual([
      ['integration', 8],
      ['integration', 7],
      ['integration', 8],
    ])
  })
})

describe('the OpenAPI document', () => {
  const { paths } = openApi(operations(TABLE), { server: '/operator/api/v1', version: '1.2.3' }) as never as {
    paths: Record<string, Record<string, Record<string, never>>>
  }

  it('has each operation, its parameters, its body and its answers', () => {
    expect(Object.keys(paths)).toEqual(['/healthz', '/readyz', '/integrations/{id}/touch', '/touches', '/all'])
    expect(paths['/integrations/{id}/touch']?.post).toMatchObject({
      operationId: 'postIntegrationsByIdTouch',
      parameters: [
        { name: 'If-Match', in: 'header', required: false },
        { name: 'id', in: 'path', required: true, schema: { type: 'integer', minimum: 1 } },
      ],
      requestBody: {
        required: false,
        content: {
          'application/json': {
            schema: {
              properties: { how_often: { type: 'integer', minimum: 1, maximum: 5, default: 1 } },
              additionalProperties: false,
            },
          },
        },
      },
      responses: { 202: { content: {} }, 422: { $ref: '#/components/responses/Refused422' } },
    })
    expect(paths['/touches']?.get).toMatchObject({
      parameters: [
        { name: 'integration' },
        { name: 'provider' },
        { name: 'owner' },
        { name: 'since' },
        { name: 'until' },
        { name: 'after' },
        { name: 'limit', schema: { maximum: 200, default: 50 } },
      ],
      responses: { 409: { $ref: '#/components/responses/Refused409' } },
    })
  })

  it('names each operation by its method and its path', () => {
    expect(operationId({ method: 'get', path: '/sync-runs/:id' })).toBe('getSyncRunsById')
  })
})
