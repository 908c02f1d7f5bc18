/** On, off and health, whole: the tables of docs/behaviour/health.md, "On, off and health". */
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { HealthStatus } from '../../src/integrations/rules.ts'
import { dueIntegrations, dueRule } from '../../src/syncs/due.ts'
import { runCommand } from '../commands/cli/run.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook, webhookOf } from '../support/rows.ts'
import { workOff } from '../support/work-off.ts'

let database: TestDatabase
let test: TestIntegrations
let api: Hono

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { both: { ...webhookProvider({ verifyWebhookSignature: () => true }), ...syncProvider(() => {}) } },
    baseUrl: BASE_URL,
    config: {
      health: { degraded_after: 1, failing_after: 2, disabled_after: 3 },
      operator: { tokens: TOKENS },
    },
  })
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

const HEALTH: readonly HealthStatus[] = ['healthy', 'degraded', 'failing', 'disabled']

/** `on failing`: no person has switched it off, its health is failing. */
interface State {
  readonly person: 'on' | 'off'
  readonly health: HealthStatus
}

const stateOf = (text: string): State => {
  const [person, health] = text.split(' ')
  return { person, health } as State
}

/** As it comes about: by calls that fail, and by a person, in either order. */
async function makeIn({ person, health }: State, isPersonFirst = false): Promise<number> {
  const integration = await makeIntegration(test, 'both', { name: `${person} ${health}` })
  if (person === 'off' && isPersonFirst) await integration.disable()
  for (let failures = 0; failures < HEALTH.indexOf(health); failures += 1) await integration.recordFailure('upstream')
  if (person === 'off' && !isPersonFirst) await integration.disable()
  return integration.id
}

const ACTS = {
  enable: (id) => test.integrations.enable(id),
  disable: (id) => test.integrations.disable(id),
  'PATCH true': (id) => patch(id, true),
  'PATCH false': (id) => patch(id, false),
  failure: async (id) => (await test.integrations.get(id)).recordFailure('upstream'),
  success: async (id) => (await test.integrations.get(id)).recordSuccess(),
} as const satisfies Record<string, (id: number) => Promise<unknown>>

async function patch(id: number, is_active: boolean): Promise<void> {
  const answer = await send('PATCH', `/operator/api/v1/integrations/${id}`, { is_active })
  expect(answer.status).toBe(200)
}

async function send(method: string, path: string, body?: object): Promise<Response> {
  const headers = { authorization: `Bearer ${OPERATE_TOKEN}`, 'content-type': 'application/json' }
  return api.request(path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
}

// state         | enable     | disable      | PATCH true  | PATCH false  | failure      | success
const TRANSITIONS = `
on healthy   | on healthy | off healthy  | on healthy  | off healthy  | on degraded  | on healthy
on degraded  | on healthy | off degraded | on degraded | off degraded | on failing   | on healthy
on failing   | on healthy | off failing  | on failing  | off failing  | on disabled  | on healthy
on disabled  | on healthy | off disabled | on healthy  | off disabled | on disabled  | on disabled
off healthy  | on healthy | off healthy  | on healthy  | off healthy  | off degraded | off healthy
off degraded | on healthy | off degraded | on healthy  | off degraded | off failing  | off healthy
off failing  | on healthy | off failing  | on healthy  | off failing  | off disabled | off healthy
off disabled | on healthy | off disabled | on healthy  | off disabled | off disabled | off disabled
`

// state         | delivery | waiting    | sync               | due | --fail-on disabled | Active            | buttons
const STANDINGS = `
on healthy   | 200 | processed  | started            | yes | 0 | yes              | disable
on degraded  | 200 | processed  | started            | yes | 0 | yes              | disable
on failing   | 200 | processed  | started            | yes | 0 | yes              | disable
on disabled  | 200 | pending    | disabled by its    | no  | 1 | no: its health   | enable disable
off healthy  | 404 | failed     | switched off       | no  | 0 | no: an operator  | enable
off degraded | 404 | failed     | switched off       | no  | 0 | no: an operator  | enable
off failing  | 404 | failed     | switched off       | no  | 0 | no: an operator  | enable
off disabled | 404 | pending    | switched off       | no  | 0 | no: an operator  | enable
`

const rowsOf = (table: string): string[][] =>
  table
    .trim()
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))

describe.each(rowsOf(TRANSITIONS).map(([from = '', ...to]) => ({ from, to })))('one that is $from', ({ from, to }) => {
  it.each(Object.keys(ACTS).map((act, n) => ({ act: act as keyof typeof ACTS, result: to[n] ?? '' })))(
    'by $act is $result',
    async ({ act, result }) => {
      const id = await makeIn(stateOf(from))
      await ACTS[act](id)
      const expected = stateOf(result)
      expect(await test.integrations.get(id)).toMatchObject({
        healthStatus: expected.health,
        switchedOffAt: expected.person === 'on' ? null : expect.any(Date),
        isActive: expected.person === 'on' && expected.health !== 'disabled',
      })
    },
  )
})

it('by PATCH true is enabled as a whole: no failures counted, due at once, its inbox woken', async () => {
  const id = await makeIn(stateOf('on disabled'))
  await patch(id, true)
  expect(await test.integrations.admin.health(id)).toMatchObject({
    consecutiveFailures: 0,
    nextSyncAt: expect.any(Date),
  })
  expect(test.starts.wakes).toContain('arrived')
})

describe.each(rowsOf(STANDINGS).map(([state = '', ...rest]) => ({ state, rest })))('one that is $state', (row) => {
  const [delivery, waiting = '', sync = '', due, failOn, active = '', buttons = ''] = row.rest
  const state = stateOf(row.state)

  it(`answers a delivery with ${delivery}, and has what waits ${waiting}`, async () => {
    const id = await makeIn(state, true)
    const answer = await api.request(`/integrations/both/${id}/webhook`, { method: 'POST', body: `{"n":${id}}` })
    expect(answer.status).toBe(Number(delivery))
    const { id: webhookId } = await makeWebhook(test, id)
    await workOff(test.framework)
    expect((await webhookOf(test, webhookId)).status).toBe(waiting)
  })

  it(`asked to sync says: ${sync}; is due: ${due}`, async () => {
    const id = await makeIn(state, true)
    const said = await test.integrations.syncs.start(id).then(
      ({ kind }) => kind,
      (error: Error) => error.message,
    )
    expect(said).toContain(sync)
    const { db, tables } = test.framework
    const planned = await dueIntegrations(db, tables, dueRule(test.framework), 1_000)
    expect(planned.some((one) => one.id === id) ? 'yes' : 'no').toBe(due)
  })

  it(`shows "${active}" everywhere, and offers ${buttons}`, async () => {
    const id = await makeIn(state)
    const facts = {
      is_active: state.person === 'on' && state.health !== 'disabled',
      health_status: state.health,
      switched_off_at: state.person === 'on' ? null : expect.stringMatching(/^\d{4}-/),
    }
    const run = (...words: (string | number)[]) => runCommand(test.integrations, words.map(String))
    expect((await run('show', id, '--json')).json()).toMatchObject(facts)
    expect((await run('health', id, '--json')).json()).toMatchObject(facts)
    const listed = (await run('list', '--limit', 1_000, '--json')).json() as { id: number }[]
    expect(listed.find((one) => one.id === id)).toMatchObject(facts)
    expect(await (await send('GET', `/operator/api/v1/integrations/${id}`)).json()).toMatchObject(facts)
    expect((await run('health', id, '--fail-on', 'disabled')).exitCode).toBe(Number(failOn))
    const line = (await run('list', '--limit', 1_000)).out.split('\n').find((text) => text.trim().startsWith(`${id} `))
    expect(line).toMatch(new RegExp(`${state.health} +${active} `))

    const page = await (await send('GET', `/operator?after=${id + 1}`)).text()
    const shown =
      page
        .split('<tr>')
        .slice(1)
        .find((text) => text.includes(`/integrations/${id}"`)) ?? ''
    expect(shown).toContain(`>${state.health}</span>`)
    expect(shown).toContain(`<td>${active}</td>`)
    const own = await (await send('GET', `/operator/integrations/${id}`)).text()
    const offered = ['enable', 'disable'].filter((act) => own.includes(`/integrations/${id}/${act}"`))
    expect(offered.join(' ')).toBe(buttons)
  })
})
