/** What an operation refuses before anything is sent, stored or logged. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { GitHubClient } from '../../../src/adapters/github/index.ts'
import type { PlayedGitHub } from './played-github.ts'
import { playGitHub } from './played-github.ts'

let github: PlayedGitHub
let client: GitHubClient
beforeAll(async () => {
  github = await playGitHub({ entries: 10 })
  client = new GitHubClient(github.integration)
}, 60_000)
afterAll(() => github.close())

/** As JavaScript may call it. */
const untyped = <T>(value: unknown): T => value as T

const NUMBERS: readonly unknown[] = [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '7', null, undefined]
const OF_A_NUMBER: readonly [name: string, call: (number: number) => Promise<unknown>][] = [
  ['issues.get', (number) => client.issues.get(number)],
  ['issues.close', (number) => client.issues.close({ number, stateReason: 'completed' })],
  ['issues.reopen', (number) => client.issues.reopen({ number })],
  ['issues.update', (number) => client.issues.update({ number, title: 'x' })],
  ['issues.timeline', (number) => client.issues.timeline(number).next()],
  ['issues.timeline with a callback', (number) => client.issues.timeline(number, () => {})],
  ['comments.list', (number) => client.comments.list(number).next()],
  ['comments.list with a callback', (number) => client.comments.list(number, () => {})],
  ['comments.add', (number) => client.comments.add({ number, body: 'x' })],
]

const TEXTS: readonly unknown[] = ['', ' ', '\n\t', null, 5, {}]
const OF_A_TEXT: readonly [name: string, argument: string, call: (text: string) => Promise<unknown>][] = [
  ['issues.create', 'title', (title) => client.issues.create({ title })],
  ['issues.create', 'labels', (label) => client.issues.create({ title: 'x', labels: ['bug', label] })],
  ['comments.add', 'body', (body) => client.comments.add({ number: 1, body })],
]

const INSTANTS: readonly unknown[] = [
  'yesterday',
  '',
  '2026-03-01',
  '2026-03-01T00:00:00',
  '2026-02-30T00:00:00Z',
  new Date('never'),
  1_700_000_000,
  null,
]
const OF_AN_INSTANT: readonly [name: string, call: (since: string) => Promise<unknown>][] = [
  ['issues.since', (since) => client.issues.since(since).next()],
  ['issues.since with a callback', (since) => client.issues.since(since, () => {})],
  ['comments.since', (since) => client.comments.since(since).next()],
  ['comments.since with a callback', (since) => client.comments.since(since, () => {})],
]

const KEYS: readonly unknown[] = ['', '  ', 'k'.repeat(192), 5, 'half a pair \ud800']
const KEYED: readonly [name: string, call: (idempotencyKey: string) => Promise<unknown>][] = [
  ['issues.create', (idempotencyKey) => client.issues.create({ title: 'x', idempotencyKey })],
  ['issues.close', (idempotencyKey) => client.issues.close({ number: 1, stateReason: 'completed', idempotencyKey })],
  ['issues.reopen', (idempotencyKey) => client.issues.reopen({ number: 1, idempotencyKey })],
  ['issues.update', (idempotencyKey) => client.issues.update({ number: 1, title: 'x', idempotencyKey })],
  ['comments.add', (idempotencyKey) => client.comments.add({ number: 1, body: 'x', idempotencyKey })],
]

const OTHERS: readonly [name: string, argument: string, call: () => Promise<unknown>][] = [
  ['issues.update of nothing', 'title', () => client.issues.update({ number: 1 })],
  ['issues.update of null and null', 'title', () => client.issues.update({ number: 1, title: null, body: null })],
  ['issues.update with a blank title', 'title', () => client.issues.update({ number: 1, title: ' ', body: 'x' })],
  ['issues.update with a body of 5', 'body', () => client.issues.update({ number: 1, body: untyped(5) })],
  ['issues.create with a body of 5', 'body', () => client.issues.create({ title: 'x', body: untyped(5) })],
  ['issues.create with labels of text', 'labels', () => client.issues.create({ title: 'x', labels: untyped('bug') })],
  ...['reopened', '', 'Completed', null, undefined].map((reason): (typeof OTHERS)[number] => [
    `issues.close as ${reason}`,
    'stateReason',
    () => client.issues.close({ number: 1, stateReason: untyped(reason) }),
  ]),
]

const REFUSED = [
  ...OF_A_NUMBER.flatMap(([name, call]) => NUMBERS.map((given) => refusal(name, 'number', given, call))),
  ...OF_A_TEXT.flatMap(([name, argument, call]) => TEXTS.map((given) => refusal(name, argument, given, call))),
  ...OF_AN_INSTANT.flatMap(([name, call]) => INSTANTS.map((given) => refusal(name, 'since', given, call))),
  ...KEYED.flatMap(([name, call]) => KEYS.map((given) => refusal(name, 'idempotencyKey', given, call))),
  ...OTHERS,
]

it('each is refused for its argument, and nothing of it is sent, logged or reserved', async () => {
  for (const [name, argument, call] of REFUSED)
    await expect(call(), name).rejects.toMatchObject({
      code: 'invalid_argument',
      argument,
      message: expect.stringMatching(/(allowed|needed).+given/s),
    })
  expect(github.exchanges).toEqual([])
  expect(await github.rows()).toEqual([])
  expect(await github.kit.sql`select * from integration_idempotency_keys`).toHaveLength(0)
})

function refusal<T>(
  name: string,
  argument: string,
  given: unknown,
  call: (given: T) => Promise<unknown>,
): (typeof OTHERS)[number] {
  const shown = given instanceof Date ? 'an invalid Date' : typeof given === 'number' ? given : JSON.stringify(given)
  return [`${name} of ${shown}`, argument, () => call(untyped<T>(given))]
}
