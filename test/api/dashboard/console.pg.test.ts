/** Deliveries that an operator makes. Rule: docs/behaviour/dashboard.md, "Test console". */
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GitHubProvider } from '../../../src/adapters/github/index.ts'
import { StripeProvider } from '../../../src/adapters/stripe/index.ts'
import type { Dashboard } from '../../support/dashboard.ts'
import { openDashboard } from '../../support/dashboard.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import type { SignedIn } from '../../support/operators.ts'
import { BASE_URL, from } from '../../support/operators.ts'
import { webhookProvider } from '../../support/providers.ts'
import { makeIntegration, makeWebhook } from '../../support/rows.ts'
import { workOff } from '../../support/work-off.ts'

const SECRET = 'whsec_canary-of-the-console'

let dashboard: Dashboard
let test: TestIntegrations
let api: Hono
let operator: SignedIn
let reader: SignedIn
let github: number
let stripe: number
let plain: number
let door: number

beforeAll(async () => {
  dashboard = await openDashboard({
    providers: {
      github: new GitHubProvider(),
      stripe: new StripeProvider(),
      acme: webhookProvider({ verifyWebhookSignature: () => true }),
      own: webhookProvider({
        testWebhookHeaders: ({ event }) => ({ 'x-event': event ?? '' }),
        verifyWebhookSignature: (_, { headers }) => headers.get('x-event') !== 'forged',
        acceptsWebhook: (_, { headers }) => headers.get('x-event') !== 'not.wanted',
        webhookDoor: {
          handshake: (_, { headers }) => (headers.get('x-event') === 'hello' ? { text: 'hello' } : null),
          accepted: { status: 202 },
          badSignature: { status: 401 },
        },
      }),
    },
  })
  ;({ test, api, reader, operator } = dashboard)
  const repository = { owner: 'acme', repo: 'widgets' }
  github = (
    await makeIntegration(test, 'github', { credentials: { token: 't', webhook_secret: SECRET }, metadata: repository })
  ).id
  stripe = (await makeIntegration(test, 'stripe', { credentials: { api_key: 'sk_test_1', webhook_secret: SECRET } })).id
  plain = (await makeIntegration(test, 'acme')).id
  door = (await makeIntegration(test, 'own')).id
})

afterAll(() => dashboard.close())

const get = (path: string, { cookie } = operator) => api.request(path, { headers: { accept: 'text/html', cookie } })
const send = (fields: Record<string, string>, { cookie, csrfToken } = operator) =>
  api.request(
    '/operator/console',
    {
      method: 'POST',
      headers: { origin: BASE_URL, cookie, 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ csrf_token: csrfToken, ...fields }).toString(),
    },
    from('203.0.113.7'),
  )

/** The stages as they are told, without markup. */
async function stagesOf(answer: Response): Promise<Record<string, string>> {
  expect(answer.status).toBe(303)
  const page = await (await get(answer.headers.get('location') ?? '')).text()
  expect(page).not.toContain(SECRET)
  return Object.fromEntries(
    [...page.matchAll(/<tr><th scope="row">(\w+)<\/th>(.*?)<\/tr>/gs)].map(([, name = '', cells = '']) => [
      name,
      cells
        .replaceAll(/<[^>]+>/g, ' ')
        .replaceAll(/\s+/g, ' ')
        .trim(),
    ]),
  )
}
const rows = async (integration: number) => {
  const found = []
  for await (const row of test.integrations.webhooks.list({ integration })) found.push(row)
  return found
}

describe('the form', () => {
  /** As a browser sends it: the chosen option of each list, or the first. */
  async function defaultsOf(path: string): Promise<Record<string, string>> {
    const page = await (await get(path)).text()
    const lists = [...page.matchAll(/<select name="(\w+)">(.*?)<\/select>/gs)].map(([, name = '', options = '']) => {
      const [, value = ''] = /value="([^"]*)" selected/.exec(options) ?? /value="([^"]*)"/.exec(options) ?? []
      return [name, value] as const
    })
    return Object.fromEntries(lists)
  }

  it.each([
    ['without a choice', () => '/operator/console', '200'],
    ['of an integration of GitHub', () => `/operator/console?integration=${github}`, '200'],
    ['of one of Stripe', () => `/operator/console?integration=${stripe}`, '200'],
    ['of a provider without samples', () => `/operator/console?integration=${plain}`, '200'],
  ])('%s can be sent as it stands', async (_, path, status) => {
    const answer = await send({ ...(await defaultsOf(path())), webhook: '', event: '', body: '' })
    expect(await stagesOf(answer)).toMatchObject({ Answered: expect.stringContaining(`success ${status}`) })
  })

  it('names the fields of each content, for the style to hide the others', async () => {
    const page = await (await get('/operator/console')).text()
    for (const name of ['for-sample', 'for-stored', 'for-own']) expect(page).toContain(`<label class="${name}">`)
  })
})

describe('a delivery that is signed', () => {
  it.each([
    ['a sample of GitHub', () => github, 'issue opened', 'issues'],
    ['a sample of Stripe', () => stripe, 'payment_intent.succeeded', 'payment_intent.succeeded'],
  ])('%s is verified, stored, claimed and handled, and told apart', async (_, of, sample, event) => {
    const answer = await send({ integration: String(of()), content: 'sample', sample, signing: 'signed' })
    const before = await stagesOf(answer)
    expect(before).toMatchObject({
      Answered: 'success 200 {&quot;status&quot;:&quot;queued&quot;}',
      Verified: 'success The signature verified.',
      Stored: expect.stringContaining(event),
      Claimed: expect.stringContaining('pending'),
    })
    const [row] = await rows(of())
    const stored = await test.integrations.webhooks.get(row?.id ?? 0)
    expect(stored.headers['x-integrations-test']).toHaveLength(1)
    for await (const act of test.integrations.admin.audit.list({ limit: 1 }))
      expect(act).toMatchObject({
        by: 'operator',
        from: '203.0.113.7',
        action: 'test-delivery signed sample: 200',
        target: `webhook:${row?.id}`,
      })
    await workOff(test.framework)
    expect(await stagesOf(answer)).toMatchObject({
      Claimed: expect.stringContaining('success'),
      Handled: expect.stringMatching(/^processed .*operation \d+ success/),
    })
  })

  it('may be a body of one’s own, or one that is stored, with its event', async () => {
    const own = {
      integration: String(github),
      content: 'own',
      body: '{"action":"own"}',
      event: 'label',
      signing: 'signed',
    }
    expect(await stagesOf(await send(own))).toMatchObject({ Stored: expect.stringContaining('label') })
    const { id } = await makeWebhook(test, github, {
      eventType: 'star',
      payload: '{"action":"starred"}',
      headers: {
        'x-github-event': ['star'],
        'x-hub-signature-256': ['sha256=old'],
        authorization: ['[REDACTED]'],
        ':query': ['a=b'],
      },
      status: 'processed',
    })
    const again = { integration: String(github), content: 'stored', webhook: String(id), signing: 'signed' }
    expect(await stagesOf(await send(again))).toMatchObject({ Stored: expect.stringContaining('star') })
    expect(await stagesOf(await send(again))).toMatchObject({
      Answered: expect.stringContaining('duplicate'),
      Stored: expect.stringContaining('an equal delivery is stored already'),
    })
  })
})

describe('a delivery that is spoilt', () => {
  it.each(['unsigned', 'tampered'])('%s is refused, and nothing is stored', async (signing) => {
    const before = (await rows(github)).length
    const stages = await stagesOf(
      await send({ integration: String(github), content: 'sample', sample: 'ping', signing }),
    )
    expect(stages).toMatchObject({
      Answered: expect.stringContaining('403'),
      Verified: expect.stringMatching(/^failed .*The signature did not verify/),
      Stored: 'failed No.',
    })
    expect(Object.keys(stages)).not.toContain('Handled')
    expect((await rows(github)).length).toBe(before)
  })
})

describe('a door with answers of its own', () => {
  const deliver = async (event: string) => {
    const own = { content: 'own', body: `{"of":"${event}"}`, event, signing: 'unsigned' }
    return stagesOf(await send({ integration: String(door), ...own }))
  }

  it('is judged by what became of the delivery, not by the status', async () => {
    expect(await deliver('wanted')).toMatchObject({
      Answered: 'success 202',
      Verified: expect.stringContaining('success'),
      Stored: expect.stringContaining('wanted'),
    })
    expect(await deliver('wanted')).toMatchObject({ Stored: 'partial No: an equal delivery is stored already.' })
    expect(await deliver('forged')).toMatchObject({
      Answered: 'failed 401',
      Verified: expect.stringMatching(/^failed The signature did not verify/),
      Stored: 'failed No.',
    })
  })

  it('says why nothing is stored: an event that is not wanted, and a handshake', async () => {
    expect(await deliver('not.wanted')).toMatchObject({
      Verified: expect.stringContaining('success'),
      Stored: 'partial No: its event is not wanted, or it brings none.',
    })
    expect(await deliver('hello')).toMatchObject({
      Answered: 'success 200 hello',
      Verified: expect.stringMatching(/^partial Not asked/),
      Stored: 'partial No: a handshake brings no delivery.',
    })
  })
})

describe('what can not be sent', () => {
  it.each<[string, () => Record<string, string>, number, string]>([
    ['no integration', () => ({ integration: '' }), 422, 'integration: the id'],
    ['an integration that is not there', () => ({ integration: '999999' }), 404, 'no integration'],
    ['another signing', () => ({ signing: 'forged' }), 422, 'signing: one of signed, unsigned, tampered'],
    ['a sample of another provider', () => ({ sample: 'customer.updated' }), 404, 'customer.updated'],
    [
      'a webhook of another integration',
      () => ({ integration: String(stripe), content: 'stored', webhook: '1' }),
      422,
      'one of integration',
    ],
    [
      'signed where the provider does not say how',
      () => ({ integration: String(plain), content: 'own', body: '{}' }),
      422,
      'no signature as data',
    ],
  ])('%s', async (_, fields, status, words) => {
    const given = {
      integration: String(github),
      content: 'sample',
      sample: 'ping',
      signing: 'signed',
      body: 'kept "text"',
    }
    const answer = await send({ ...given, ...fields() })
    const page = await answer.text()
    expect([answer.status, page.includes(words)], page).toEqual([status, true])
    expect(page).toContain(fields().body === undefined ? 'kept &quot;text&quot;' : '{}')
  })

  it('a reader sends nothing, and sees no form', async () => {
    const page = await (await get('/operator/console', reader)).text()
    expect(page).toContain('needs the scope')
    expect(page).not.toContain('name="signing"')
    const fields = { integration: String(github), content: 'sample', sample: 'ping', signing: 'signed' }
    expect((await send(fields, reader)).status).toBe(403)
  })
})
