import { describe, expect, it } from 'vitest'
import type { WebhookSubscription } from '../../src/providers/contracts.ts'
import type { KnownSubscription, Wanted } from '../../src/subscriptions/rules.ts'
import {
  isAlarming,
  nextLookSeconds,
  ownSubscriptions,
  planFor,
  renewalDueAt,
  retrySeconds,
} from '../../src/subscriptions/rules.ts'

const NOW = new Date('2026-03-10T12:00:00Z')
const later = (seconds: number): Date => new Date(NOW.getTime() + seconds * 1_000)

const URL = 'https://api.example.com/integrations/acme/7/webhook'
const OLD_URL = 'https://old.example.com/integrations/acme/7/webhook'
const known: KnownSubscription = {
  subscriptionId: 'a',
  url: URL,
  expiresAt: later(60),
  renewedAt: later(-40),
}
const nothing: KnownSubscription = { subscriptionId: null, url: null, expiresAt: null, renewedAt: null }
const wanted: Wanted = { url: URL, canAdopt: true, hasSecret: true, now: NOW }
const a: WebhookSubscription = { id: 'a', url: URL, expiresAt: later(60) }
const b: WebhookSubscription = { id: 'b', url: URL, expiresAt: later(60) }

describe('which subscriptions are ours', () => {
  it.each<[string, KnownSubscription, readonly WebhookSubscription[] | null, string[]]>([
    ['the known id, wherever it delivers', known, [{ ...a, url: 'https://else.example' }], ['a']],
    ['each that delivers to our door', known, [a, b, { id: 'c', url: 'https://else.example' }], ['a', 'b']],
    ['each that delivers to the door that we had', { ...known, url: OLD_URL }, [{ id: 'c', url: OLD_URL }], ['c']],
    ['without a list the known one', known, null, ['a']],
    ['without a list and an id none', nothing, null, []],
    ['without a list and the id none', { ...known, subscriptionId: null }, null, []],
    ['without a list and the door none', { ...known, url: null }, null, []],
    ['each that delivers to our new door', { ...nothing, url: OLD_URL }, [b], ['b']],
    ['none that delivers elsewhere', known, [{ id: 'c', url: 'https://else.example' }], []],
  ])('%s', (_, row, listed, ids) => {
    expect(ownSubscriptions(row, listed, URL).map(({ id }) => id)).toEqual(ids)
  })

  it('of another one the end stays as the list says', () => {
    const elsewhere = { ...b, expiresAt: later(90) }
    expect(ownSubscriptions(known, [{ ...a, expiresAt: later(50) }, elsewhere, { id: 'c', url: URL }], URL)).toEqual([
      { ...a, expiresAt: later(50) },
      elsewhere,
      { id: 'c', url: URL },
    ])
  })

  it('the known end stands where the list does not say', () => {
    expect(ownSubscriptions(known, [{ id: 'a', url: URL }], URL)[0]?.expiresAt).toEqual(known.expiresAt)
  })
})

describe('what is done', () => {
  it.each<[string, KnownSubscription, WebhookSubscription[], Partial<Wanted>, string, string | null, string[]]>([
    ['the provider has no subscription', nothing, [], {}, 'create', null, []],
    ['it is as it should be', known, [a], {}, 'nothing', 'a', []],
    ['it is lost', known, [], {}, 'create', null, []],
    ['it has ended', known, [{ ...a, expiresAt: NOW }], {}, 'create', null, ['a']],
    ['half of its life is over', known, [a], { now: later(10) }, 'renew', 'a', []],
    ['a moment before that', known, [a], { now: later(9.999) }, 'nothing', 'a', []],
    ['it never ends', { ...known, expiresAt: null }, [{ id: 'a', url: URL, expiresAt: null }], {}, 'nothing', 'a', []],
    ['it is switched off there', known, [{ ...a, isIntact: false }], {}, 'renew', 'a', []],
    ['it delivers elsewhere', known, [{ ...a, url: OLD_URL }], {}, 'renew', 'a', []],
    ['its secret is an old one of ours', known, [a], { hasSecret: false }, 'renew', 'a', []],
    ['its secret is an old one of theirs', known, [a], { hasSecret: false, canAdopt: false }, 'replace', 'a', []],
    ['an answer was lost', nothing, [b], {}, 'renew', 'b', []],
    ['an answer with its secret was lost', nothing, [b], { canAdopt: false, hasSecret: false }, 'create', null, ['b']],
    ['there are two', known, [b, a], {}, 'nothing', 'a', ['b']],
    ['none is known, and one of two delivers here', nothing, [{ ...b, url: OLD_URL }, a], {}, 'renew', 'a', ['b']],
    ['none is known, and none delivers here', nothing, [{ ...b, url: OLD_URL }], {}, 'renew', 'b', []],
    ['its secret is there, and theirs', known, [a], { canAdopt: false }, 'nothing', 'a', []],
    [
      'its secret is there, and it is switched off',
      known,
      [{ ...a, isIntact: false }],
      { canAdopt: false },
      'renew',
      'a',
      [],
    ],
  ])('%s', (_, row, own, more, todo, kept, surplus) => {
    const plan = planFor(row, own, { ...wanted, ...more })
    expect([plan.todo, plan.subscription?.id ?? null, plan.surplus.map(({ id }) => id)]).toEqual([todo, kept, surplus])
  })
})

describe('when it is looked at', () => {
  it('is renewed at half of its life', () => {
    expect(renewalDueAt({ renewedAt: NOW, expiresAt: later(90) })).toEqual(later(45))
    expect(renewalDueAt({ renewedAt: NOW, expiresAt: null })).toBeNull()
  })

  it.each([
    [90, 3_600, 45],
    [90, 30, 30],
    [null, 3_600, 3_600],
    [1, 3_600, 1],
  ])('with a life of %s s and a check every %s s after %s s', (life, checkSeconds, seconds) => {
    const expiresAt = life === null ? null : later(life)
    expect(nextLookSeconds({ renewedAt: NOW, expiresAt }, { now: NOW, checkSeconds })).toBe(seconds)
  })

  it('after a failure later and later, and at each check', () => {
    expect([1, 2, 3, 4, 5, 6].map((failures) => retrySeconds(failures, 3_600))).toEqual([5, 15, 60, 300, 900, 900])
    expect(retrySeconds(6, 10)).toBe(10)
  })

  it('alarms at the third failure, and at once at one that does not pass', () => {
    expect([isAlarming(2, false), isAlarming(3, false), isAlarming(1, true)]).toEqual([false, true, true])
  })
})
